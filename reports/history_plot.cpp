#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/history.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kRowHeight = 22;
constexpr double kTop = 16;
constexpr double kNamesWidth = 330;
constexpr double kPlotWidth = 420;
constexpr double kTextWidth = 200;
constexpr double kBottom = 46;
constexpr std::size_t kMaxNameLength = 44;

// What is drawn of a row that has an interval: its effect in percent.
struct Mark {
  const HistoryRow* row = nullptr;
  double percent = 0;
  double low_percent = 0;
  double high_percent = 0;
};

double percent_of(double ratio) { return 100 * (ratio - 1); }

std::optional<Mark> mark_of(const HistoryRow& row) {
  if (!row.effect_ratio || !row.effect_low_ratio || !row.effect_high_ratio) return std::nullopt;
  return Mark{.row = &row,
              .percent = percent_of(*row.effect_ratio),
              .low_percent = percent_of(*row.effect_low_ratio),
              .high_percent = percent_of(*row.effect_high_ratio)};
}

// "2026-01-31 nightly-17".
std::string label_of(const HistoryRow& row) {
  std::string name = fmt::format("{} {}", row.begun_utc.substr(0, 10), row.bundle);
  if (width_of(name) > kMaxNameLength) name = name.substr(0, kMaxNameLength - 3) + "...";
  return name;
}

}  // namespace

std::string history_svg(const History& history) {
  std::vector<Mark> marks;
  double low = 0;  // The zero line is always in sight.
  double high = 0;
  for (const HistoryRow& row : history.rows) {
    const std::optional<Mark> mark = mark_of(row);
    if (!mark) continue;
    marks.push_back(*mark);
    low = std::min(low, mark->low_percent);
    high = std::max(high, mark->high_percent);
  }
  if (marks.empty()) return {};
  const double margin = 0.04 * std::max(high - low, 0.01);
  low -= margin;
  high += margin;
  const auto x_of = [&](double percent) {
    return kNamesWidth + kPlotWidth * (percent - low) / (high - low);
  };
  const auto heading_of = [](const HistoryRow& row) {
    return fmt::format("{} ({} on {})", row.arm, row.model, row.device);
  };
  std::string body;
  std::string heading;
  double y = kTop;
  for (const Mark& mark : marks) {
    const HistoryRow& row = *mark.row;
    if (heading_of(row) != heading) {
      heading = heading_of(row);
      body += svg_text(8, y + 15, "start", heading);
      y += kRowHeight;
    }
    const std::string_view colour = swatch_of(row.verdict).colour;
    const double middle = y + kRowHeight / 2;
    body += svg_text(kNamesWidth - 10, middle + 4, "end", label_of(row), kMutedColour, 12);
    body += svg_line(x_of(mark.low_percent), middle, x_of(mark.high_percent), middle, colour, 2.5);
    const double x = x_of(mark.percent);
    body += svg_rect(x - 4, middle - 4, 8, 8, colour, label_of(row));
    body += svg_text(
        kNamesWidth + kPlotWidth + 10, middle + 4, "start",
        format_effect(1 + mark.percent / 100, row.effect_low_ratio, row.effect_high_ratio) +
            (row.has_changed ? " *" : ""),
        kInkColour, 12);
    y += kRowHeight;
  }
  const double width = kNamesWidth + kPlotWidth + kTextWidth;
  std::string svg = svg_begin(width, y + kBottom, "Effects over bundles, from old to new",
                              "Each effect with its interval; a star: it has no value in common "
                              "with the one before it.");
  const double step = tick_step(high - low);
  for (auto i = static_cast<int>(std::ceil(low / step)); i * step <= high; ++i) {
    svg += svg_line(x_of(i * step), kTop, x_of(i * step), y + 5, kGridColour, 1);
    svg += svg_text(x_of(i * step), y + 19, "middle",
                    fmt::format("{:.{}f}", i * step, tick_decimals(step)), kInkColour, 12);
  }
  svg += svg_line(x_of(0), kTop, x_of(0), y, kAxisColour, 1.5);
  svg += svg_line(kNamesWidth, y, kNamesWidth + kPlotWidth, y, kAxisColour, 1);
  svg += svg_text(kNamesWidth + kPlotWidth / 2, y + 37, "middle",
                  "change of tokens/s in %; *: no value in common with the one before", kInkColour,
                  12);
  return svg + body + "</svg>\n";
}

}  // namespace steplens
