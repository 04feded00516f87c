#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "harness/statistics.h"
#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/pairs.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/plots/step_plots.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kRowHeight = 34;
constexpr double kBarsHeight = 26;
constexpr double kTop = 34;
constexpr double kPlotWidth = 520;
constexpr double kTextWidth = 270;     // "p50 108.9 ms, p99 111.1 ms, 2 beyond"
constexpr double kLetterWidth = 8;     // Of the 13 px font, for the room that names need.
constexpr std::size_t kNumBins = 104;  // Five pixels each.
constexpr std::size_t kBarSeries = 3;  // A light blue, on which the marks stand out.
constexpr double kMinSpan = 0.2;       // Percent: below it the axis would show the clock's grain.

struct Row {
  const ArmResult* arm;
  std::vector<double> percents;  // Of the median, sorted.
};

std::vector<Row> rows_of(const Bundle& bundle, const Results& results) {
  std::vector<Row> rows;
  for (const ArmResult* arm : table_order(results)) {
    const double median_ns = arm->pooled_step_p50_ns.value_or(0);
    if (median_ns <= 0) continue;
    Row row = {.arm = arm, .percents = {}};
    for (const BlockRecord* block : usable_blocks(bundle, arm->name)) {
      for (const std::int64_t step_ns : block->steps.step_wall_ns) {
        row.percents.push_back(100 * (static_cast<double>(step_ns) / median_ns - 1));
      }
    }
    std::ranges::sort(row.percents);
    if (!row.percents.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

// Of all arms the middle 98 %: one long step must not squeeze all others.
Scale scale_of(const std::vector<Row>& rows, double left) {
  std::vector<double> ends;
  for (const Row& row : rows) {
    ends.push_back(percentile(row.percents, 0.01));
    ends.push_back(percentile(row.percents, 0.99));
  }
  return scale_around(ends, kMinSpan, left, left + kPlotWidth);
}

std::string row_svg(const Row& row, const Scale& x, double bottom) {
  std::array<std::size_t, kNumBins> counts = {};
  std::size_t num_beyond = 0;
  for (const double percent : row.percents) {
    const double bin = (percent - x.low) / (x.high - x.low) * kNumBins;
    if (bin < 0 || bin >= kNumBins) {
      ++num_beyond;
    } else {
      ++counts[static_cast<std::size_t>(bin)];
    }
  }
  const std::size_t most = std::max<std::size_t>(1, *std::ranges::max_element(counts));
  std::string path = fmt::format("M{:.1f} {:.1f}", x.begin, bottom);
  double drawn = bottom;
  for (std::size_t i = 0; i < kNumBins; ++i) {
    const double level =
        bottom - kBarsHeight * static_cast<double>(counts[i]) / static_cast<double>(most);
    if (level == drawn) continue;
    path += fmt::format("H{:.1f}V{:.1f}", x.begin + static_cast<double>(i) * kPlotWidth / kNumBins,
                        level);
    drawn = level;
  }
  std::string svg = fmt::format("<path d=\"{}H{:.1f}V{:.1f}Z\" fill=\"{}\"/>\n", path, x.end,
                                bottom, series_swatch(kBarSeries).colour);
  svg += svg_line(x.begin, bottom, x.end, bottom, kGridColour, 1);
  for (const double share : {0.50, 0.90, 0.99}) {
    const double at = x.at(percentile(row.percents, share));
    if (at > x.end) continue;
    svg += svg_line(at, bottom - (share == 0.50 ? kBarsHeight : kBarsHeight / 2), at, bottom + 3,
                    kAxisColour, share == 0.50 ? 2 : 1.2);
  }
  svg += svg_text(x.begin - 8, bottom - 6, "end", row.arm->name);
  return svg +
         svg_text(x.end + 10, bottom - 6, "start",
                  fmt::format("p50 {}, p99 {}{}",
                              format_or_absent(row.arm->pooled_step_p50_ns, format_duration_ns),
                              format_or_absent(row.arm->pooled_step_p99_ns, format_duration_ns),
                              num_beyond == 0 ? "" : fmt::format(", {} beyond", num_beyond)));
}

}  // namespace

std::string step_distribution_svg(const Bundle& bundle, const Results& results) {
  const std::vector<Row> rows = rows_of(bundle, results);
  if (rows.empty()) return {};
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.arm->name.size());
  const double left = 16 + kLetterWidth * static_cast<double>(longest);
  const Scale x = scale_of(rows, left);
  const double bottom = kTop + kRowHeight * static_cast<double>(rows.size());
  std::string svg = svg_begin(
      left + kPlotWidth + kTextWidth, bottom + 52, "Distribution of step times, by arm",
      "Histograms of all measured steps of each arm, as deviations from its median in percent");
  svg += svg_text(left, 18, "start", "All measured steps; marks: median, 90th and 99th percentile",
                  kMutedColour);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    svg += row_svg(rows[i], x, kTop + kRowHeight * static_cast<double>(i + 1));
  }
  return svg + svg_x_axis(x, bottom + 8, "deviation from the arm's own median, in %") + "</svg>\n";
}

}  // namespace steplens
