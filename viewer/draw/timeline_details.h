#pragma once

#include <optional>
#include <vector>

#include "viewer/data/slice_facts.h"
#include "viewer/draw/theme.h"
#include "viewer/draw/timeline_canvas.h"

namespace steplens {

/// The timeline's tooltip. Remembers the facts of the slice that it showed last: finding a launch
/// takes a while among millions.
class TimelineTooltip {
 public:
  void show(const Theme& theme, const std::vector<TimelineSide>& sides, const TimeAxis& axis,
            const TimelinePick& picked);

 private:
  std::optional<SideSlice> slice_;
  SliceFacts facts_;
};

struct DetailEvents {
  bool wants_kernel_table = false;
  bool wants_counterpart = false;
};

/// What is known of the selected slice, in the rest of the window: facts flow down, then right.
DetailEvents draw_facts_pane(const Theme& theme, const SliceFacts& facts, bool is_operation,
                             bool has_counterpart);

/// The categories of kernels that the traces have, in one line.
void draw_category_legend(const Theme& theme, const std::vector<TimelineSide>& sides);

}  // namespace steplens
