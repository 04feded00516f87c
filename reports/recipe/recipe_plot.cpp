#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/recipe/recipe_report.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kColumn = 104;
constexpr double kLeft = 90;
constexpr double kTop = 44;
constexpr double kBottom = 300;
// Words nearer than this to a line would stand in its words.
constexpr double kClose = 16;

}  // namespace

std::string recipe_svg(const RecipeResults& results) {
  std::vector<double> rates;
  for (const RecipeStepResults& step : results.steps) {
    if (!step.results) continue;
    for (const ArmResult& row : step.results->arms) {
      if (row.valid_tokens_per_s) rates.push_back(*row.valid_tokens_per_s);
    }
  }
  if (rates.empty()) return {};
  rates.push_back(0);
  const Scale y = scale_around(rates, 1, kBottom, kTop);
  const double right = kLeft + kColumn * static_cast<double>(results.steps.size() + 1);
  std::string svg = svg_begin(right + 20, kBottom + 60, "Tokens/s along the path of the recipe");
  svg += svg_y_axis(y, kLeft, right, "tokens/s");
  svg += svg_line(kLeft, kBottom, right, kBottom, kAxisColour, 1);
  const std::string_view kept_colour = swatch_of(Verdict::kFaster).colour;
  double now = 0;  // The rate of what is kept so far; 0: not known yet.
  double x = kLeft;
  const auto column_text = [&](std::string_view first, std::string_view second) {
    svg += svg_text(x + kColumn / 2, kBottom + 18, "middle", first, kInkColour, 12);
    svg += svg_text(x + kColumn / 2, kBottom + 36, "middle", second, kMutedColour, 11);
  };
  const auto level = [&](double rate, std::string_view colour, double width, std::string_view word,
                         double words_below = -5) {
    svg += svg_line(x + 14, y.at(rate), x + kColumn - 14, y.at(rate), colour, width);
    svg += svg_text(x + kColumn / 2, y.at(rate) + words_below, "middle", word, kInkColour, 11);
  };
  for (const RecipeStepResults& step : results.steps) {
    const ArmResult* baseline = step.baseline();
    if (now == 0 && baseline != nullptr && baseline->valid_tokens_per_s) {
      now = *baseline->valid_tokens_per_s;
      level(now, kAxisColour, 3, format_rate(now));
      column_text("start", "");
      x += kColumn;
    }
    if (!step.results) {
      column_text(step.step.toggle, "skipped");
      if (now > 0) {  // The path goes on where it was.
        svg += svg_line(x - 14, y.at(now), x + kColumn - 14, y.at(now), kAxisColour, 1);
      }
      x += kColumn;
      continue;
    }
    const ArmResult* kept = step.kept();
    const bool is_alternative = !step.step.changes.empty();
    const std::string kept_name = is_alternative ? "all it excluded" : step.step.kept_level;
    const ArmResult* shown = kept != nullptr ? kept : baseline;
    for (const ArmResult& row : step.results->arms) {
      if (row.is_baseline || !row.valid_tokens_per_s || &row == kept) continue;
      double words_below = -5;
      if (shown != nullptr && shown->valid_tokens_per_s) {
        const double below = y.at(*row.valid_tokens_per_s) - y.at(*shown->valid_tokens_per_s);
        if (std::abs(below) < kClose) words_below = below >= 0 ? 12 : -kClose - below;
      }
      level(*row.valid_tokens_per_s, kMutedColour, 1,
            is_alternative ? std::string_view("the excluded") : row.level, words_below);
    }
    if (shown != nullptr && shown->valid_tokens_per_s) {
      const double next = *shown->valid_tokens_per_s;
      svg += svg_line(x - 14, y.at(now), x + 14, y.at(next), kAxisColour, 1);
      level(next, kept != nullptr ? kept_colour : kAxisColour, 3,
            kept != nullptr ? fmt::format("{}: {}", kept_name, format_rate(next)) : std::string());
      now = next;
    }
    column_text(is_alternative ? "without " + step.step.toggle : step.step.toggle,
                kept == nullptr  ? "not kept"
                : is_alternative ? "kept"
                                 : "kept " + kept_name);
    x += kColumn;
  }
  return svg + "</svg>\n";
}

}  // namespace steplens
