#include "viewer/draw/counter_painter.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "reports/format.h"

namespace steplens {
namespace {

constexpr float kColumnPx = 3;

// From 0 up to a round number, or 100 of a percentage.
double top_of(const CounterSeries& series) {
  const double max = std::max(series.extent().max, 1e-9);
  if (series.unit() == "%") return std::max(100.0, max);
  return max * 1.08;
}

}  // namespace

std::string counter_text(double value, const std::string& unit) {
  if (unit == "B") return format_bytes(value);
  if (unit == "B/s") return format_bytes(value) + "/s";
  return unit.empty() ? format_significant(value)
                      : fmt::format("{} {}", format_significant(value), unit);
}

std::size_t draw_counter(ImDrawList& list, const Theme& theme, const CounterSeries& series,
                         const TimeAxis& axis, std::int64_t origin_ns, float top, float bottom,
                         ImU32 colour) {
  (void)theme;
  if (series.points().empty()) return 0;
  const double scale = static_cast<double>(bottom - top) / top_of(series);
  const auto y_of = [&](double value) {
    return bottom - static_cast<float>(std::max(0.0, value) * scale);
  };
  const ImU32 fill = with_alpha(colour, 0.28F);
  std::size_t num_rectangles = 0;
  // Neighbouring columns of one height are one rectangle.
  struct Run {
    float left, right, y_min, y_max;
  };
  std::optional<Run> run;
  const auto flush = [&] {
    if (!run) return;
    list.AddRectFilled({run->left, run->y_max}, {run->right, bottom}, fill);
    list.AddRectFilled({run->left, run->y_max},
                       {run->right, std::max(run->y_min, run->y_max + 1.5F)}, colour);
    num_rectangles += 2;
    run.reset();
  };
  for (float x = axis.left; x < axis.right(); x += kColumnPx) {
    const auto start_ns = origin_ns + static_cast<std::int64_t>(axis.ns_of(x));
    const auto end_ns =
        std::max(start_ns + 1, origin_ns + static_cast<std::int64_t>(axis.ns_of(x + kColumnPx)));
    const auto extent = series.extent_within(start_ns, end_ns);
    // The last sample does not hold for ever.
    if (!extent || start_ns > series.points().back().time_ns) {
      flush();
      continue;
    }
    const float y_min = std::round(y_of(extent->min));
    const float y_max = std::round(y_of(extent->max));
    if (run && run->y_min == y_min && run->y_max == y_max) {
      run->right = x + kColumnPx;
      continue;
    }
    flush();
    run = Run{x, x + kColumnPx, y_min, y_max};
  }
  flush();
  return num_rectangles;
}

}  // namespace steplens
