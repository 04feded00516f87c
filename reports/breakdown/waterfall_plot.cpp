#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/breakdown/breakdown_parts.h"
#include "reports/format.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kRowHeight = 26;
constexpr double kBarHeight = 16;
constexpr double kTop = 14;
constexpr double kLeft = 230;  // "12 others, below 0.1 % each"
constexpr double kPlotWidth = 560;
constexpr double kTextWidth = 110;

std::string bar_svg(const Scale& x, double from_ns, double to_ns, double y, std::string_view colour,
                    std::string_view label, std::string_view text) {
  const double left = x.at(std::min(from_ns, to_ns));
  const double right = x.at(std::max(from_ns, to_ns));
  const double middle = y + kBarHeight / 2 + 4;
  return svg_text(kLeft - 10, middle, "end", label) +
         svg_rect(left, y, std::max(1.0, right - left), kBarHeight, colour) +
         svg_text(right + 7, middle, "start", text);
}

}  // namespace

std::string waterfall_svg(const Waterfall& waterfall, const std::string& reference,
                          const std::string& arm) {
  const std::vector<WaterfallRow> rows = shown_rows(waterfall, waterfall.categories);
  const auto before_ns = static_cast<double>(waterfall.reference_step_ns);
  const auto after_ns = static_cast<double>(waterfall.candidate_step_ns);
  std::vector<double> levels = {before_ns, after_ns};
  double level_ns = before_ns;
  for (const WaterfallRow& row : rows) {
    levels.push_back(level_ns += static_cast<double>(row.difference_ns));
  }
  // A small change of a long step would be a hair: the axis begins near the lowest level then.
  const auto [lowest, highest] = std::ranges::minmax(levels);
  const double margin = std::max(highest - lowest, 1e-3 * highest);
  const double low = lowest - margin < 0.5 * highest ? 0 : lowest - margin;
  const Scale x = {.low = low,
                   .high = highest + 0.02 * (highest - low),
                   .begin = kLeft,
                   .end = kLeft + kPlotWidth};
  const double bottom = kTop + kRowHeight * static_cast<double>(rows.size() + 2);
  std::string svg =
      svg_begin(kLeft + kPlotWidth + kTextWidth, bottom + 46,
                fmt::format("From the step of {} to that of {}", reference, arm),
                fmt::format("A traced step of {} takes {}, one of {} {}", reference,
                            format_duration_ns(before_ns), arm, format_duration_ns(after_ns)));
  double y = kTop;
  svg += bar_svg(x, low, before_ns, y, swatch_of(std::optional<Verdict>()).colour, reference,
                 format_duration_ns(before_ns));
  level_ns = before_ns;
  for (const WaterfallRow& row : rows) {
    y += kRowHeight;
    const auto change_ns = static_cast<double>(row.difference_ns);
    svg += svg_line(x.at(level_ns), y - (kRowHeight - kBarHeight), x.at(level_ns), y + kBarHeight,
                    kAxisColour, 0.7);
    svg += bar_svg(x, level_ns, level_ns + change_ns, y,
                   swatch_of(change_ns < 0 ? Verdict::kFaster : Verdict::kSlower).colour, row.label,
                   fmt::format("{}{}", change_ns > 0 ? "+" : "", format_duration_ns(change_ns)));
    level_ns += change_ns;
  }
  y += kRowHeight;
  svg += bar_svg(x, low, after_ns, y, swatch_of(std::optional<Verdict>()).colour, arm,
                 format_duration_ns(after_ns));
  const bool is_ms = highest >= 2e6;
  const double unit_ns = is_ms ? 1e6 : 1e3;
  const Scale axis = {
      .low = x.low / unit_ns, .high = x.high / unit_ns, .begin = x.begin, .end = x.end};
  return svg +
         svg_x_axis(axis, bottom,
                    fmt::format("mean of the traced steps in {}{}; blue: less, "
                                "orange: more",
                                is_ms ? "ms" : "us", low > 0 ? ", cut off at the left" : "")) +
         "</svg>\n";
}

}  // namespace steplens
