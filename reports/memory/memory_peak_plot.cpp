#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/memory/memory_parts.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kRowHeight = 30;
constexpr double kBarHeight = 20;
constexpr double kTop = 12;
constexpr double kPlotWidth = 620;
constexpr double kTextWidth = 110;
constexpr double kLetterWidth = 8;  // Of the 13 px font, for the room that names need.
constexpr double kLegendRowHeight = 20;
constexpr std::string_view kSlackColour = "#c4c4c4";
constexpr std::string_view kUnaccountedColour = "#8a8a8a";

struct BarPart {
  std::string label;
  std::string_view colour;
  double bytes;
};

// What the driver saw: owners, then the cache's slack and what nobody accounts for.
std::vector<BarPart> parts_of(const MemoryArm& arm) {
  const MemoryAccount& peak = arm.use.peak;
  std::vector<BarPart> parts;
  for (const MemoryOwner owner : stacking_order()) {
    parts.push_back({label_of(owner), swatch_of(owner).colour,
                     static_cast<double>(bytes_of(peak.by_owner, owner))});
  }
  parts.push_back(
      {"cache slack", kSlackColour,
       static_cast<double>(std::max<std::int64_t>(0, peak.cache_slack_bytes().value_or(0)))});
  parts.push_back(
      {"unaccounted", kUnaccountedColour,
       static_cast<double>(std::max<std::int64_t>(0, arm.use.unaccounted_bytes.value_or(0)))});
  return parts;
}

double sum_of_parts(const std::vector<BarPart>& parts) {
  double sum = 0;
  for (const BarPart& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace

std::string memory_peak_svg(std::span<const MemoryArm> arms) {
  std::vector<const MemoryArm*> drawn;
  std::vector<std::vector<BarPart>> bars;
  std::size_t longest = 0;
  double largest_bytes = 0;
  for (const MemoryArm& arm : arms) {
    if (arm.use.peak.allocated_bytes() <= 0) continue;
    drawn.push_back(&arm);
    bars.push_back(parts_of(arm));
    longest = std::max(longest, arm.arm.size());
    largest_bytes = std::max(largest_bytes, sum_of_parts(bars.back()));
  }
  if (bars.empty()) return {};
  const double left = 16 + kLetterWidth * static_cast<double>(longest);
  const double width = left + kPlotWidth + kTextWidth;
  const double bottom = kTop + kRowHeight * static_cast<double>(bars.size());
  const Scale x = {.low = 0, .high = largest_bytes, .begin = left, .end = left + kPlotWidth};

  std::string legend;
  double legend_x = left;
  double legend_y = bottom + 60;
  for (std::size_t i = 0; i < bars.front().size(); ++i) {
    if (std::ranges::all_of(bars, [&](const auto& bar) { return bar[i].bytes == 0; })) continue;
    const BarPart& part = bars.front()[i];
    const double needed = 44 + 7 * static_cast<double>(part.label.size());
    if (legend_x > left && legend_x + needed > width) {
      legend_x = left;
      legend_y += kLegendRowHeight;
    }
    legend += svg_rect(legend_x, legend_y - 10, 12, 12, part.colour);
    legend += svg_text(legend_x + 18, legend_y, "start", part.label);
    legend_x += needed;
  }

  std::string svg = svg_begin(width, legend_y + 14, "Device memory at the high-water mark, by arm",
                              "Stacked bars by owner, then cache slack and what is unaccounted");
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double y = kTop + kRowHeight * static_cast<double>(i);
    svg += svg_text(left - 8, y + kBarHeight / 2 + 4, "end", drawn[i]->arm);
    double begin = 0;
    for (const BarPart& part : bars[i]) {
      if (part.bytes <= 0) continue;
      svg += svg_rect(x.at(begin), y, x.at(begin + part.bytes) - x.at(begin), kBarHeight,
                      part.colour, fmt::format("{}: {}", part.label, format_bytes(part.bytes)));
      begin += part.bytes;
    }
    svg += svg_text(x.at(begin) + 7, y + kBarHeight / 2 + 4, "start",
                    format_bytes(static_cast<double>(drawn[i]->use.peak.allocated_bytes())));
  }
  const bool is_gib = largest_bytes >= 2.0 * (1 << 30);
  const double unit = is_gib ? 1 << 30 : 1 << 20;
  const Scale axis = {.low = 0, .high = largest_bytes / unit, .begin = x.begin, .end = x.end};
  return svg +
         svg_x_axis(axis, bottom,
                    fmt::format("{} that the driver saw; at the bars: allocated",
                                is_gib ? "GiB" : "MiB")) +
         legend + "</svg>\n";
}

}  // namespace steplens
