#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/recipe.h"
#include "reports/report_document.h"
#include "reports/results.h"

/// The path of a recipe: what each step tried, what it kept, and where that led.
namespace steplens {

/// One step with what its matrix found.
struct RecipeStepResults {
  RecipeStep step;
  std::optional<Results> results;  // Absent where nothing was run.

  const ArmResult* kept() const;      // Null: nothing was kept.
  const ArmResult* baseline() const;  // Null: nothing was run.
};

struct RecipeResults {
  Recipe recipe;
  std::string gpu_name;
  std::string model;
  std::vector<RecipeStepResults> steps;
  std::optional<Results> leave_one_out;
  /// Product of the kept effects: the rate at the end / at the start. Absent without a measured
  /// step. Each factor is of a matrix of its own, so the product has no interval.
  std::optional<double> total_ratio;
};

/// ConfigError names the file that is missing or damaged.
RecipeResults compute_recipe(const std::filesystem::path& folder);

nlohmann::json to_json(const RecipeResults& results);

/// One row a step that was run: what was kept, rate and peak after it, what was tried with its
/// effects, and why it was kept or not.
Table recipe_table(const RecipeResults& results);
/// Why the others were not, one sentence a reason.
std::vector<std::string> skipped_sentences(const RecipeResults& results);
/// One row a kept toggle: what undoing it alone does to the final configuration.
Table leave_one_out_table(const RecipeResults& results);

/// Tokens/s along the path, a column a step, with the levels that were tried and not kept. An SVG
/// file; empty without a measured step.
std::string recipe_svg(const RecipeResults& results);

ReportDocument recipe_document(const RecipeResults& results);

inline constexpr std::string_view kRecipePlot = "recipe.svg";

/// Writes report.md with its plot and report.html into the folder, each atomically.
RecipeResults write_recipe_report(const std::filesystem::path& folder);

std::string recipe_text(const RecipeResults& results);

}  // namespace steplens
