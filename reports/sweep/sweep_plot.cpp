#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/svg.h"
#include "reports/sweep/sweep_results.h"

namespace steplens {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 380;
constexpr double kLeft = 70;
constexpr double kRight = 540;
constexpr double kTop = 40;
constexpr double kBottom = 320;

double percent_of(double ratio) { return 100 * (ratio - 1); }

struct Line {
  std::string arm;
  std::vector<double> x, effect, low, high;
};

std::vector<Line> lines_of(const SweepResults& results, bool is_log) {
  std::vector<Line> lines;
  for (const std::string& arm : results.arms) {
    Line line{.arm = arm};
    for (const SweepPoint& point : results.points) {
      const ArmResult* row = find_arm(point.results, arm);
      if (row == nullptr || !row->effect_ratio || !point.position) continue;
      line.x.push_back(is_log ? std::log2(*point.position) : *point.position);
      line.effect.push_back(percent_of(*row->effect_ratio));
      line.low.push_back(percent_of(row->effect_low_ratio.value_or(*row->effect_ratio)));
      line.high.push_back(percent_of(row->effect_high_ratio.value_or(*row->effect_ratio)));
    }
    if (!line.x.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

bool spans_octaves(const SweepResults& results) {
  double low = 0;
  double high = 0;
  for (const SweepPoint& point : results.points) {
    if (!point.position || *point.position <= 0) return false;
    low = low == 0 ? *point.position : std::min(low, *point.position);
    high = std::max(high, *point.position);
  }
  return high >= 4 * low;
}

std::string sweep_svg(const SweepResults& results) {
  const bool is_log = spans_octaves(results);
  const std::vector<Line> lines = lines_of(results, is_log);
  if (lines.empty()) return {};
  std::vector<double> xs;
  std::vector<double> ys = {0};  // The baseline is always in sight.
  for (const Line& line : lines) {
    xs.insert(xs.end(), line.x.begin(), line.x.end());
    ys.insert(ys.end(), line.low.begin(), line.low.end());
    ys.insert(ys.end(), line.high.begin(), line.high.end());
  }
  const Scale x = scale_around(xs, 0.5, kLeft, kRight);
  const Scale y = scale_around(ys, 1.0, kBottom, kTop);
  std::string svg =
      svg_begin(kWidth, kHeight, fmt::format("Effects against {}", results.sweep.key));
  svg += svg_y_axis(y, kLeft, kRight, "change of tokens/s in %");
  svg += svg_line(kLeft, y.at(0), kRight, y.at(0), kAxisColour, 1.5);
  svg += svg_line(kLeft, kBottom, kRight, kBottom, kAxisColour, 1);
  for (const SweepPoint& point : results.points) {
    if (!point.position) continue;
    const double at = x.at(is_log ? std::log2(*point.position) : *point.position);
    svg += svg_line(at, kBottom, at, kBottom + 5, kAxisColour, 1);
    svg += svg_text(at, kBottom + 19, "middle", point.value);
  }
  svg += svg_text((kLeft + kRight) / 2, kBottom + 40, "middle",
                  results.sweep.key + (is_log ? " (log scale)" : ""));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const std::string_view colour = series_swatch(i).colour;
    svg += svg_polyline(x, y, line.x, line.effect, colour, 2);
    for (std::size_t k = 0; k < line.x.size(); ++k) {
      const double at = x.at(line.x[k]);
      svg += svg_line(at, y.at(line.low[k]), at, y.at(line.high[k]), colour, 2);
      for (const double end : {line.low[k], line.high[k]}) {
        svg += svg_line(at - 5, y.at(end), at + 5, y.at(end), colour, 2);
      }
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", at,
                         y.at(line.effect[k]), colour);
    }
    const double key_y = kTop + 20 * static_cast<double>(i);
    svg += svg_rect(kRight + 16, key_y - 10, 12, 12, colour);
    svg += svg_text(kRight + 34, key_y, "start", line.arm);
  }
  svg += svg_text(kRight + 16, kTop + 20 * static_cast<double>(lines.size()), "start",
                  "0: the baseline", kMutedColour);
  return svg + "</svg>\n";
}

}  // namespace steplens
