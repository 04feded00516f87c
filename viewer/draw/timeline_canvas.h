#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <imgui.h>

#include "viewer/data/hits.h"
#include "viewer/draw/row_painter.h"
#include "viewer/draw/theme.h"
#include "viewer/draw/time_axis.h"
#include "viewer/draw/timeline_layout.h"

namespace steplens {

/// All that a frame of the timeline shows. Times are those of the axis.
struct TimelineScene {
  const std::vector<TimelineSide>& sides;
  const TimelineLayout& layout;
  TimeAxis axis;
  ImVec2 low;  // Of everything,
  ImVec2 high;
  float lanes_top = 0;  // of the lanes, below the ruler.
  float scroll_y = 0;

  std::vector<const Hits*> hits;  // By side; null: nothing stands out.
  std::uint64_t hits_version = 0;
  std::optional<SideSlice> selected;
  std::optional<SideSlice> counterpart;  // Of the selected one, in the other arm.
  std::optional<SideSlice> hovered;
  std::optional<std::pair<SideSlice, SideSlice>> arrow;  // From a call to what it launched.
  std::optional<std::pair<int, int>> selected_steps;     // Both included.
  std::optional<std::pair<double, double>> measured;
  std::vector<double> marks;

  float y_of(const TimelineItem& item) const { return lanes_top + item.top - scroll_y; }
};

/// What is under the cursor.
struct TimelinePick {
  enum class Kind : std::uint8_t { kNothing, kHeader, kSlice, kStretch, kGap, kCounter };
  Kind kind = Kind::kNothing;
  const TimelineItem* item = nullptr;
  SideSlice slice;            // Of a slice; of a stretch the longest one in it.
  std::int64_t start_ns = 0;  // Of a stretch and a gap, on the trace's clock.
  std::int64_t end_ns = 0;
};
TimelinePick pick(const TimelineScene& scene, ImVec2 position);

/// Tells --dump-state where lanes are: "lane.a.Stream 7".
void mark_lanes(const TimelineScene& scene);

/// Draws scenes.
class TimelineCanvas {
 public:
  /// Returns whether another frame must follow.
  bool draw(ImDrawList& list, const Theme& theme, const TimelineScene& scene);
  /// One strip of the busiest stream of the first side over `axis`, which shows everything.
  void draw_overview(ImDrawList& list, const Theme& theme, const TimelineScene& scene,
                     const TimeAxis& axis, float top, float bottom);
  /// Other traces, or another theme.
  void clear() {
    painter_.clear();
    overview_painter_.clear();
  }
  std::size_t num_rectangles() const { return painter_.num_rectangles() + num_other_rectangles_; }

 private:
  void draw_ruler(ImDrawList& list, const Theme& theme, const TimelineScene& scene);
  void draw_step_lines(ImDrawList& list, const Theme& theme, const TimelineScene& scene);
  void draw_lane(ImDrawList& list, const Theme& theme, const TimelineScene& scene,
                 const TimelineItem& item, std::size_t max_slices);
  void draw_gutter(ImDrawList& list, const Theme& theme, const TimelineScene& scene,
                   const TimelineItem& item) const;

  RowPainter painter_;
  RowPainter overview_painter_;
  std::size_t num_other_rectangles_ = 0;
};

}  // namespace steplens
