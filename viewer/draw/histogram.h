#pragma once

#include <string>
#include <vector>

#include <imgui.h>

#include "viewer/data/kernel_stats.h"
#include "viewer/draw/theme.h"

namespace steplens {

struct HistogramLine {
  const DurationHistogram* histogram = nullptr;
  std::string label;
  ImU32 colour = 0;
  double median_ns = 0;
};

/// Durations of one or two arms over each other, as shares of each; the axis of durations is
/// logarithmic. Takes `size` at the cursor.
void draw_histogram(const Theme& theme, const std::vector<HistogramLine>& lines, ImVec2 size);

}  // namespace steplens
