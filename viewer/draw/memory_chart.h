#pragma once

#include <cstdint>
#include <optional>

#include <imgui.h>

#include "viewer/data/memory_series.h"
#include "viewer/draw/theme.h"
#include "viewer/draw/time_axis.h"

namespace steplens {

/// What a chart of one arm shows.
struct MemoryChart {
  const MemorySeries* series = nullptr;
  const CounterSeries* reserved = nullptr;  // By the cache; may be null.
  std::int64_t origin_ns = 0;               // Zero of the axis on the trace's clock.
  double max_bytes = 1;                     // Top of the y axis; one for all charts.
};

/// Allocated bytes by owner, stacked, over time; what the cache holds as a line above; the peak;
/// and a strip of phases below. Every few pixels show the moment with most bytes.
void draw_memory_chart(ImDrawList& list, const Theme& theme, const MemoryChart& chart,
                       const TimeAxis& axis, float top, float bottom);

/// The owners at one moment, largest first, with bars: items of the current window. `total_bytes`
/// is what a whole bar stands for.
void draw_owners(const Theme& theme, const OwnerBytes& bytes, double total_bytes, float width);

}  // namespace steplens
