#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/experiment.h"
#include "harness/plan.h"

/// A sequential search for a fast configuration: one toggle after the other, each tried on top of
/// what was kept before, and each kept only if its matrix says FASTER. At the end every kept toggle
/// is undone alone ("leave one out"), because what helped early may be of no use later.
///
/// A recipe is a folder: recipe.json, and one bundle a step. What is kept follows from the bundles'
/// verdicts alone, so a run that goes on decides as the first one did.
namespace steplens {

inline constexpr std::string_view kRecipeFileName = "recipe.json";
inline constexpr std::string_view kLeaveOneOutFolder = "leave-one-out";

/// The order in which to try toggles: arithmetic, attention, accumulation, compiler, fused
/// operators, graph.
std::string_view default_recipe_order();

/// What the search starts from unless --set says otherwise: fp32, unfused attention, a launch a
/// tensor in the optimizer.
std::vector<std::pair<std::string, std::string>> recipe_start_settings();

/// One arm of a step's matrix, as its results.json has it.
struct RecipeArm {
  std::string name;
  std::string toggle;
  std::string level;
  std::string verdict;  // Empty: not applicable.
  std::optional<double> effect_ratio;
  std::optional<std::int64_t> peak_allocated_bytes;
  std::string reason;
};
/// The arms of a results.json, the baseline first. ConfigError if it has none.
std::vector<RecipeArm> recipe_arms(const nlohmann::json& results);

/// One toggle that moves from a level to another.
struct RecipeChange {
  std::string toggle;
  std::string from_level;
  std::string level;

  bool operator==(const RecipeChange&) const = default;
};

/// What one step tried and what came of it.
struct RecipeStep {
  std::string toggle;
  std::string folder;      // Of its bundle, below the recipe's; empty: nothing was run.
  std::string kept_level;  // Empty: the toggle stays where it was.
  std::string from_level;  // Where it stood.
  std::string reason;      // Why it was kept or not; a sentence without a full stop.
  /// Of an alternative (harness/recipe_alternative.h): `toggle` back to `kept_level`, then what it
  /// excluded, all in one arm. Empty: a step of one toggle.
  std::vector<RecipeChange> changes = {};
};

/// Where each toggle stands that the steps moved: from where it stood at the start, to its level
/// now. In the order in which they were kept first; what came back to its start is left out.
std::vector<RecipeChange> kept_changes(std::span<const RecipeStep> steps);

/// What undoing one kept toggle does to the final configuration.
struct LeaveOneOut {
  std::string toggle;
  std::string kept_level;
  std::string from_level;
  std::string verdict;                 // Of undoing it; empty: it cannot be undone alone.
  std::optional<double> effect_ratio;  // Undone / final.
  std::string reason;
  /// SLOWER without it: it belongs to the final set.
  bool is_needed() const { return verdict == "SLOWER"; }
};

struct Recipe {
  Experiment experiment;            // The start, with its settings.
  std::vector<ToggleChoice> order;  // Toggles to try, with the levels to try of each.
  /// Peak memory to reach: while the configuration needs more, a step keeps what needs least.
  std::optional<std::int64_t> memory_goal_bytes;
  std::vector<RecipeStep> steps;  // Done so far.
  std::vector<LeaveOneOut> leave_one_out;
  bool is_done = false;
};

/// The row of a step's matrix to keep, and why. Among the FASTER ones the fastest. While the
/// baseline needs more than the memory goal: among the measured ones that fit the fastest, or, if
/// none fits, the one with the lowest peak below the baseline's.
struct RecipeDecision {
  const RecipeArm* kept = nullptr;  // Null: none.
  std::string reason;
};
RecipeDecision decide_step(std::span<const RecipeArm> arms,
                           std::optional<std::int64_t> memory_goal_bytes);

/// What the final matrix says of undoing each kept toggle.
std::vector<LeaveOneOut> judge_leave_one_out(std::span<const RecipeStep> steps,
                                             std::span<const RecipeArm> arms);

/// Key and value that --set takes for a level. ConfigError if this program does not know it.
std::pair<std::string, std::string> setting_of(std::string_view toggle, std::string_view level,
                                               const PlanVocabulary& vocabulary);

/// Settings of the start, then of everything that the steps kept.
std::vector<std::pair<std::string, std::string>> settings_after(const Recipe& recipe,
                                                                const PlanVocabulary& vocabulary);

/// "03-accumulation"
std::string step_folder(std::size_t step_index, std::string_view toggle);

nlohmann::json to_json(const Recipe& recipe);
Recipe recipe_from_json(const nlohmann::json& json, std::string_view source);
bool is_recipe(const std::filesystem::path& folder);
Recipe read_recipe(const std::filesystem::path& folder);

}  // namespace steplens
