#pragma once

#include <cstdint>
#include <string>

#include <imgui.h>

#include "viewer/data/counter_series.h"
#include "viewer/draw/theme.h"
#include "viewer/draw/time_axis.h"

namespace steplens {

/// A counter over time: a filled curve that shows smallest and largest value of every few pixels.
/// Returns the number of rectangles.
std::size_t draw_counter(ImDrawList& list, const Theme& theme, const CounterSeries& series,
                         const TimeAxis& axis, std::int64_t origin_ns, float top, float bottom,
                         ImU32 colour);

/// "412.5 W", "1.25 GiB", "87.0 %".
std::string counter_text(double value, const std::string& unit);

}  // namespace steplens
