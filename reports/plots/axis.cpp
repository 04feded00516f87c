#include "reports/plots/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "harness/error.h"
#include "reports/svg.h"

namespace steplens {
namespace {

struct Tick {
  double value;
  std::string label;
};

std::vector<Tick> ticks_of(const Scale& scale, double num_pixels_each) {
  const double length = std::abs(scale.end - scale.begin);
  const double wanted = std::max(1.0, length / num_pixels_each);
  // `tick_step` aims at six.
  const double step = tick_step((scale.high - scale.low) * 6 / wanted);
  std::vector<Tick> ticks;
  const auto first = static_cast<std::int64_t>(std::ceil(scale.low / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(scale.high / step + 1e-9));
  for (std::int64_t i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    ticks.push_back({value, fmt::format("{:.{}f}", value, tick_decimals(step))});
  }
  return ticks;
}

}  // namespace

Scale scale_around(const std::vector<double>& values, double min_span, double begin, double end) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) low = high = 0;
  const double missing = std::max(0.0, min_span - (high - low)) / 2;
  const double margin = 0.04 * std::max(high - low, min_span) + missing;
  return {.low = low - margin, .high = high + margin, .begin = begin, .end = end};
}

std::string svg_x_axis(const Scale& x, double y, std::string_view title) {
  std::string svg = svg_line(x.begin, y, x.end, y, kAxisColour, 1);
  for (const Tick& tick : ticks_of(x, 90)) {
    svg += svg_line(x.at(tick.value), y, x.at(tick.value), y + 5, kAxisColour, 1);
    svg += svg_text(x.at(tick.value), y + 18, "middle", tick.label, kInkColour, 12);
  }
  return svg + svg_text((x.begin + x.end) / 2, y + 36, "middle", title);
}

std::string svg_y_axis(const Scale& y, double left, double right, std::string_view title) {
  std::string svg = svg_text(left, y.end - 8, "start", title);
  for (const Tick& tick : ticks_of(y, 24)) {
    svg += svg_line(left, y.at(tick.value), right, y.at(tick.value), kGridColour, 1);
    svg += svg_text(left - 7, y.at(tick.value) + 4, "end", tick.label, kInkColour, 12);
  }
  return svg;
}

std::string svg_polyline(const Scale& x, const Scale& y, const std::vector<double>& xs,
                         const std::vector<double>& ys, std::string_view colour, double width,
                         std::string_view dashes) {
  SL_CHECK(xs.size() == ys.size());
  std::string points;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!std::isfinite(xs[i]) || !std::isfinite(ys[i])) continue;
    points += fmt::format("{}{:.1f} {:.1f}", points.empty() ? "M" : "L", x.at(xs[i]), y.at(ys[i]));
  }
  if (points.empty()) return {};
  return fmt::format(
      "<path{} d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "stroke-linejoin=\"round\"{}/>\n",
      svg_class(colour), points, colour, width,
      dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
}

}  // namespace steplens
