#include "reports/effect_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kRowHeight = 26;
constexpr double kTop = 30;
constexpr double kBottom = 44;  // Axis, its numbers and its title.
constexpr double kPlotWidth = 420;
constexpr double kTextWidth = 210;  // "+103.1 % [102.9, 103.3]" and a verdict word.
constexpr double kLetterWidth = 8;  // Of the 13 px font, for the room that names need.

struct Row {
  const ArmResult* arm;
  double percent;
  double low_percent;
  double high_percent;
};

double percent_of(double ratio) { return 100 * (ratio - 1); }

std::vector<Row> rows_of(const Results& results) {
  std::vector<Row> rows;
  for (const ArmResult* arm : table_order(results)) {
    if (!arm->effect_ratio || !arm->effect_low_ratio || !arm->effect_high_ratio) continue;
    rows.push_back({.arm = arm,
                    .percent = percent_of(*arm->effect_ratio),
                    .low_percent = percent_of(*arm->effect_low_ratio),
                    .high_percent = percent_of(*arm->effect_high_ratio)});
  }
  return rows;
}

class Plot {
 public:
  Plot(const Results& results, std::vector<Row> rows) : results_(results), rows_(std::move(rows)) {
    std::size_t longest = 0;
    for (const Row& row : rows_) {
      longest = std::max(longest, row.arm->name.size());
      low_ = std::min(low_, row.low_percent);
      high_ = std::max(high_, row.high_percent);
    }
    const double margin = 0.04 * std::max(high_ - low_, 0.01);
    low_ -= margin;
    high_ += margin;
    left_ = 16 + kLetterWidth * static_cast<double>(longest);
    bottom_ = kTop + kRowHeight * static_cast<double>(rows_.size());
    width_ = left_ + kPlotWidth + kTextWidth;
  }

  std::string svg() {
    begin();
    draw_equivalence_band();
    draw_axis();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      draw_row(rows_[i], kTop + kRowHeight * (static_cast<double>(i) + 0.5));
    }
    return svg_ + "</svg>\n";
  }

 private:
  double x_of(double percent) const {
    return left_ + kPlotWidth * (percent - low_) / (high_ - low_);
  }

  void begin() {
    svg_ = svg_begin(width_, bottom_ + kBottom, "Effects with their intervals, by arm",
                     headline(results_));
    text(left_, 18, "start", "slower");
    text(left_ + kPlotWidth, 18, "end", "faster");
  }

  void draw_equivalence_band() {
    const double equivalence = results_.rule.equivalence_ratio;
    const double low = std::max(low_, percent_of(1 / equivalence));
    const double high = std::min(high_, percent_of(equivalence));
    svg_ += svg_rect(x_of(low), kTop, x_of(high) - x_of(low), bottom_ - kTop, kBandColour);
  }

  void draw_axis() {
    const double step = tick_step(high_ - low_);
    const int num_decimals = tick_decimals(step);
    const auto first = static_cast<int>(std::ceil(low_ / step));
    const auto last = static_cast<int>(std::floor(high_ / step));
    for (int i = first; i <= last; ++i) {
      const double tick = i * step;
      line(x_of(tick), bottom_, x_of(tick), bottom_ + 5, kAxisColour, 1);
      text(x_of(tick), bottom_ + 19, "middle", fmt::format("{:.{}f}", tick, num_decimals));
    }
    line(left_, bottom_, left_ + kPlotWidth, bottom_, kAxisColour, 1);
    line(x_of(0), kTop - 4, x_of(0), bottom_, kAxisColour, 1.5);
    text(left_ + kPlotWidth / 2, bottom_ + 37, "middle",
         fmt::format("change of tokens/s in %, with {:.0f} % intervals; grey: equivalent",
                     100 * results_.rule.confidence));
  }

  void draw_row(const Row& row, double y) {
    const std::string_view colour = swatch_of(row.arm->verdict).colour;
    text(left_ - 8, y + 4, "end", row.arm->name);
    line(x_of(row.low_percent), y, x_of(row.high_percent), y, colour, 2.5);
    for (const double end : {row.low_percent, row.high_percent}) {
      line(x_of(end), y - 5, x_of(end), y + 5, colour, 2.5);
    }
    const double x = x_of(row.percent);
    if (row.arm->verdict == Verdict::kEquivalent) {
      svg_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"9\" height=\"9\" fill=\"{}\"/>\n",
                      x - 4.5, y - 4.5, colour);
    } else {
      const bool is_proven =
          row.arm->verdict == Verdict::kFaster || row.arm->verdict == Verdict::kSlower;
      svg_ += fmt::format(
          "<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\" stroke=\"{}\" "
          "stroke-width=\"2\"/>\n",
          is_proven ? "" : svg_class(kGroundColour), x, y, is_proven ? colour : kGroundColour,
          colour);
    }
    text(left_ + kPlotWidth + 10, y + 4, "start", effect_text(*row.arm));
  }

  void line(double x1, double y1, double x2, double y2, std::string_view colour, double width) {
    svg_ += svg_line(x1, y1, x2, y2, colour, width);
  }

  void text(double x, double y, std::string_view anchor, std::string_view content) {
    svg_ += svg_text(x, y, anchor, content);
  }

  const Results& results_;
  std::vector<Row> rows_;
  double low_ = 0;  // The zero line is always in sight.
  double high_ = 0;
  double left_ = 0;
  double bottom_ = 0;
  double width_ = 0;
  std::string svg_;
};

}  // namespace

std::string effects_svg(const Results& results) {
  std::vector<Row> rows = rows_of(results);
  return rows.empty() ? std::string() : Plot(results, std::move(rows)).svg();
}

}  // namespace steplens
