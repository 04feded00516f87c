#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <imgui.h>

namespace steplens {

/// A texture of which each row is a strip of pixels: what is too narrow for rectangles of its own.
/// A rectangle costs about a microsecond in software; a row of 2,000 texels no more than two of
/// them. Rows that did not change are not sent again. OpenGL's context must be current.
class StripTexture {
 public:
  StripTexture() = default;
  ~StripTexture();
  StripTexture(const StripTexture&) = delete;
  StripTexture& operator=(const StripTexture&) = delete;

  /// Rows are handed out from 0 again.
  void begin_frame() { num_rows_ = 0; }

  /// The next row, to be drawn from `low` to `high`; `texels` (packed as ImU32) lie side by side
  /// between them. `version` is another one whenever the texels are: that of last time means that
  /// they need not be looked at.
  void draw(ImDrawList& list, std::span<const ImU32> texels, std::uint64_t version, ImVec2 low,
            ImVec2 high);

  /// Sends what changed; before the frame is rendered. Returns whether the texture had to grow
  /// while the frame was made, so that it must be drawn once more.
  bool upload();

 private:
  void resize(std::size_t width, std::size_t height);

  unsigned texture_ = 0;
  std::size_t width_ = 0;
  std::size_t height_ = 0;
  std::size_t num_rows_ = 0;
  std::vector<ImU32> texels_;
  std::vector<std::uint64_t> versions_;  // By row; 0: nothing there.
  std::size_t dirty_begin_ = 0;
  std::size_t dirty_end_ = 0;
  bool has_to_redraw_ = false;
};

}  // namespace steplens
