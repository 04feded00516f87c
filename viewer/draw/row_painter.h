#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <imgui.h>

#include "viewer/data/row_view.h"
#include "viewer/draw/lane_colours.h"
#include "viewer/draw/strip_texture.h"
#include "viewer/draw/theme.h"
#include "viewer/draw/time_axis.h"

namespace steplens {

/// What a row is drawn with.
struct RowStyle {
  const ToneColours* colours = nullptr;
  std::span<const std::uint32_t> highlighted;  // Sorted indices.
  bool dims_others = false;                    // What is not highlighted steps back.
  std::uint64_t highlight_version = 0;         // Another one whenever the two above are.
  std::size_t max_slices = 96;
  bool has_labels = true;
  std::uint32_t selected_index = kNoRow;
  std::uint32_t hovered_index = kNoRow;
};

/// Draws rows of slices: wide ones as rectangles with labels, the rest as a strip of texels. Keeps
/// what it computed while the window stays the same. When all of many dense rows must be computed
/// anew, half of them wait for the next frame and are drawn as they were: at the right place, but
/// as coarse as before.
class RowPainter {
 public:
  void begin_frame();
  /// Sends the strips; returns whether another frame must follow.
  bool end_frame();

  /// `origin_ns`: of the axis, on the trace's clock. `label_of` gives a slice's text. The list is
  /// split: strips go to channel 0, rectangles to 1, text to 2, so that each makes one draw call.
  void draw(ImDrawList& list, const Theme& theme, const SliceRow& row, const TimeAxis& axis,
            std::int64_t origin_ns, float top, float bottom, const RowStyle& style,
            const std::function<std::string_view(const Slice&)>& label_of);

  /// Of this frame.
  std::size_t num_rectangles() const { return num_rectangles_; }
  /// Forgets all rows: another trace, another theme.
  void clear() { cache_.clear(); }

 private:
  struct Cached {
    TimeWindow window;
    std::uint64_t highlight_version = 0;
    std::size_t max_slices = 0;
    std::uint64_t version = 0;  // Of the texels.
    bool is_stale = false;      // Another window is wanted since the last frame.
    RowView view;
    std::vector<ImU32> texels;
  };
  void update(Cached& cached, const SliceRow& row, const TimeWindow& window, const RowStyle& style);

  std::unordered_map<const SliceRow*, Cached> cache_;
  StripTexture strips_;
  std::uint64_t next_version_ = 1;
  std::size_t num_rectangles_ = 0;
  std::size_t num_label_glyphs_ = 0;
  std::ptrdiff_t budget_ = 0;             // Buckets of dense rows that may be computed,
  std::ptrdiff_t num_stale_buckets_ = 0;  // and those that were put off.
};

}  // namespace steplens
