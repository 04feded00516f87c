#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/palette.h"
#include "reports/plots/axis.h"
#include "reports/recipe/recipe_report.h"
#include "reports/svg.h"

namespace steplens {
namespace {

constexpr double kColumn = 116;
constexpr double kLeft = 90;
constexpr double kTop = 44;
constexpr double kBottom = 300;
constexpr double kMargin = 14;     // Of a level's line in its column.
constexpr double kShortLine = 20;  // Of a level that was not kept: its word stands behind it.
// Words nearer than this to the line of the level that was kept would stand in it or its words.
constexpr double kClose = 16;
constexpr double kWordHeight = 12;

using Steps = std::vector<RecipeStepResults>;

// Steps with nothing to compare take one column together.
Steps::const_iterator end_of_skipped(Steps::const_iterator step, Steps::const_iterator end) {
  return std::find_if(step, end, [](const RecipeStepResults& s) { return s.results.has_value(); });
}

double num_columns(const Steps& steps) {
  double count = 1;  // The start's.
  for (auto it = steps.begin(); it != steps.end(); ++count) {
    it = it->results ? it + 1 : end_of_skipped(it, steps.end());
  }
  return count;
}

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
  const double right = kLeft + kColumn * num_columns(results.steps);
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
  const auto level = [&](double rate, std::string_view colour, std::string_view word) {
    svg += svg_line(x + kMargin, y.at(rate), x + kColumn - kMargin, y.at(rate), colour, 3);
    svg += svg_text(x + kColumn / 2, y.at(rate) - 5, "middle", word, kInkColour, 11);
  };
  for (auto it = results.steps.begin(); it != results.steps.end();) {
    const RecipeStepResults& step = *it;
    const ArmResult* baseline = step.baseline();
    if (now == 0 && baseline != nullptr && baseline->valid_tokens_per_s) {
      now = *baseline->valid_tokens_per_s;
      level(now, kAxisColour, format_rate(now));
      column_text("start", "");
      x += kColumn;
    }
    if (!step.results) {
      const auto end = end_of_skipped(it, results.steps.end());
      const std::string first = step.step.toggle;
      const std::string last = std::prev(end)->step.toggle;
      column_text(first == last ? first : fmt::format("{} to {}", first, last),
                  first == last ? "skipped" : fmt::format("{} skipped", end - it));
      if (now > 0) {  // The path goes on where it was.
        svg += svg_line(x - kMargin, y.at(now), x + kColumn - kMargin, y.at(now), kAxisColour, 1);
      }
      x += kColumn;
      it = end;
      continue;
    }
    const ArmResult* kept = step.kept();
    const bool is_alternative = !step.step.changes.empty();
    const std::string kept_name = is_alternative ? "all it excluded" : step.step.kept_level;
    const ArmResult* shown = kept != nullptr ? kept : baseline;
    std::vector<const ArmResult*> others;
    for (const ArmResult& row : step.results->arms) {
      if (!row.is_baseline && row.valid_tokens_per_s && &row != kept) others.push_back(&row);
    }
    std::ranges::sort(others, std::greater(),
                      [](const ArmResult* row) { return *row->valid_tokens_per_s; });
    double last_word = 0;
    for (const ArmResult* row : others) {
      const double at = y.at(*row->valid_tokens_per_s);
      double word = at + 4;
      if (shown != nullptr && shown->valid_tokens_per_s) {
        const double shown_at = y.at(*shown->valid_tokens_per_s);
        if (std::abs(at - shown_at) < kClose) {
          word =
              at >= shown_at ? std::max(word, shown_at + kWordHeight + 1) : shown_at - kClose - 2;
        }
      }
      last_word = word = std::max(word, last_word + kWordHeight);
      svg += svg_line(x + kMargin, at, x + kMargin + kShortLine, at, kMutedColour, 1);
      svg +=
          svg_text(x + kMargin + kShortLine + 4, word, "start",
                   is_alternative ? std::string_view("the excluded") : row->level, kInkColour, 11);
    }
    if (shown != nullptr && shown->valid_tokens_per_s) {
      const double next = *shown->valid_tokens_per_s;
      svg += svg_line(x - kMargin, y.at(now), x + kMargin, y.at(next), kAxisColour, 1);
      level(next, kept != nullptr ? kept_colour : kAxisColour,
            kept != nullptr ? fmt::format("{}: {}", kept_name, format_rate(next)) : std::string());
      now = next;
    }
    column_text(is_alternative ? "without " + step.step.toggle : step.step.toggle,
                kept == nullptr  ? "not kept"
                : is_alternative ? "kept"
                                 : "kept " + kept_name);
    x += kColumn;
    ++it;
  }
  return svg + "</svg>\n";
}

}  // namespace steplens
