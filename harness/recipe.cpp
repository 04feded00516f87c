#include "harness/recipe.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/block.h"
#include "harness/config_text.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"

namespace steplens {
namespace {

using nlohmann::json;

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json choices_to_json(std::span<const ToggleChoice> choices) {
  json list = json::array();
  for (const ToggleChoice& choice : choices) {
    list.push_back({{"toggle", choice.toggle}, {"levels", choice.levels}});
  }
  return list;
}

bool is_measured(const RecipeArm& arm) {
  return arm.verdict == "FASTER" || arm.verdict == "SLOWER" || arm.verdict == "EQUIVALENT" ||
         arm.verdict == "INCONCLUSIVE";
}

std::string change_text(double ratio) { return fmt::format("{:+.2f} %", 100 * (ratio - 1)); }

std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1LL << 30));
}

// What a step that kept something changed.
std::vector<RecipeChange> changes_of(const RecipeStep& step) {
  if (!step.changes.empty()) return step.changes;
  return {{.toggle = step.toggle, .from_level = step.from_level, .level = step.kept_level}};
}

// Of arms that were measured; of the others what wins nothing.
double effect_of(const RecipeArm& arm) { return arm.effect_ratio.value_or(0); }
std::int64_t peak_of(const RecipeArm& arm) {
  return arm.peak_allocated_bytes.value_or(std::numeric_limits<std::int64_t>::max());
}

RecipeDecision decide_by_memory(std::span<const RecipeArm> arms, std::int64_t goal_bytes) {
  const std::int64_t now_bytes = peak_of(arms.front());
  RecipeDecision decision;
  for (const RecipeArm& arm : arms.subspan(1)) {
    if (!is_measured(arm) || !arm.effect_ratio || !arm.peak_allocated_bytes) continue;
    if (*arm.peak_allocated_bytes >= now_bytes) continue;
    const bool fits = *arm.peak_allocated_bytes <= goal_bytes;
    const bool best_fits = decision.kept != nullptr && peak_of(*decision.kept) <= goal_bytes;
    const bool is_better = decision.kept == nullptr || (fits && !best_fits) ||
                           (fits && best_fits && effect_of(arm) > effect_of(*decision.kept)) ||
                           (!fits && !best_fits && peak_of(arm) < peak_of(*decision.kept));
    if (is_better) decision.kept = &arm;
  }
  decision.reason =
      decision.kept == nullptr
          ? fmt::format("nothing needs less than {}", bytes_text(now_bytes))
          : fmt::format("for memory: {} instead of {}, goal {}; rate {}",
                        bytes_text(peak_of(*decision.kept)), bytes_text(now_bytes),
                        bytes_text(goal_bytes), change_text(effect_of(*decision.kept)));
  return decision;
}

}  // namespace

std::string_view default_recipe_order() {
  return "precision=bf16,attention,accumulation=2|4,compile=aoti,norm,rope,mlp,loss,"
         "loss_rows=all,embedding,weights,residual,gemm,optimizer,graph=on";
}

std::vector<std::pair<std::string, std::string>> recipe_start_settings() {
  return {{"precision", "fp32"}, {"attention", "math"}, {"optimizer", "loop"}};
}

std::vector<RecipeArm> recipe_arms(const json& results) {
  std::vector<RecipeArm> arms;
  for (const json& row : json_field<json>(results, kRecipeFileName, "arms")) {
    const auto text = [&](const char* key) {
      return row.contains(key) && row[key].is_string() ? row[key].get<std::string>()
                                                       : std::string();
    };
    RecipeArm arm{.name = text("name"),
                  .toggle = text("toggle"),
                  .level = text("level"),
                  .verdict = text("verdict"),
                  .reason = text("reason")};
    if (row.contains("effect_ratio") && row["effect_ratio"].is_number()) {
      arm.effect_ratio = row["effect_ratio"].get<double>();
    }
    if (row.contains("peak_allocated_bytes") && row["peak_allocated_bytes"].is_number()) {
      arm.peak_allocated_bytes = row["peak_allocated_bytes"].get<std::int64_t>();
    }
    arms.push_back(std::move(arm));
  }
  if (arms.empty()) throw ConfigError("recipe: the results of a step have no arms");
  return arms;
}

RecipeDecision decide_step(std::span<const RecipeArm> arms,
                           std::optional<std::int64_t> memory_goal_bytes) {
  SL_CHECK(!arms.empty());
  const std::optional<std::int64_t>& now_bytes = arms.front().peak_allocated_bytes;
  if (memory_goal_bytes && now_bytes && *now_bytes > *memory_goal_bytes) {
    const RecipeDecision decision = decide_by_memory(arms, *memory_goal_bytes);
    if (decision.kept != nullptr) return decision;
  }
  RecipeDecision decision;
  const RecipeArm* best_of_rest = nullptr;
  for (const RecipeArm& arm : arms.subspan(1)) {
    if (!arm.effect_ratio) continue;
    // What is faster but leaves the memory goal is no gain.
    const bool is_too_large = memory_goal_bytes && arm.peak_allocated_bytes &&
                              *arm.peak_allocated_bytes > *memory_goal_bytes &&
                              (!now_bytes || *arm.peak_allocated_bytes > *now_bytes);
    const RecipeArm*& best =
        arm.verdict == "FASTER" && !is_too_large ? decision.kept : best_of_rest;
    if (best == nullptr || effect_of(arm) > effect_of(*best)) best = &arm;
  }
  if (decision.kept != nullptr) {
    decision.reason = fmt::format("{} is FASTER, {}", decision.kept->name,
                                  change_text(effect_of(*decision.kept)));
  } else if (best_of_rest != nullptr) {
    decision.reason = fmt::format("no level wins; the best is {}, {}, {}", best_of_rest->name,
                                  change_text(effect_of(*best_of_rest)), best_of_rest->verdict);
    if (best_of_rest->verdict == "NO_EFFECT" && !best_of_rest->reason.empty()) {
      decision.reason += ": " + best_of_rest->reason;
    }
  } else {
    decision.reason = "no level could be measured";
    for (const RecipeArm& arm : arms.subspan(1)) {
      if (!arm.reason.empty()) decision.reason += fmt::format("; {}: {}", arm.name, arm.reason);
    }
  }
  return decision;
}

std::vector<RecipeChange> kept_changes(std::span<const RecipeStep> steps) {
  std::vector<RecipeChange> kept;
  for (const RecipeStep& step : steps) {
    if (step.kept_level.empty()) continue;
    for (const RecipeChange& change : changes_of(step)) {
      const auto it = std::ranges::find(kept, change.toggle, &RecipeChange::toggle);
      if (it == kept.end()) {
        kept.push_back(change);
      } else {
        it->level = change.level;
      }
    }
  }
  std::erase_if(kept, [](const RecipeChange& change) { return change.level == change.from_level; });
  return kept;
}

std::vector<LeaveOneOut> judge_leave_one_out(std::span<const RecipeStep> steps,
                                             std::span<const RecipeArm> arms) {
  std::vector<LeaveOneOut> rows;
  for (const RecipeChange& kept : kept_changes(steps)) {
    LeaveOneOut row{.toggle = kept.toggle, .kept_level = kept.level, .from_level = kept.from_level};
    for (const RecipeArm& arm : arms) {
      if (arm.toggle != kept.toggle || arm.level != kept.from_level) continue;
      row.verdict = arm.verdict;
      row.effect_ratio = arm.effect_ratio;
      row.reason = arm.reason;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::pair<std::string, std::string> setting_of(std::string_view toggle, std::string_view level,
                                               const PlanVocabulary& vocabulary) {
  const Toggle* known = find_toggle(vocabulary.toggles, toggle);
  const Level* edit = known == nullptr ? nullptr : find_level(*known, level);
  if (edit == nullptr) {
    throw ConfigError(fmt::format("recipe: {}={} is not known to this program", toggle, level));
  }
  // A level's name need not be what its key takes (500us is 500000).
  RunConfig config;
  edit->apply(config);
  return {std::string(known->key), value_text(*find_config_field(known->key), config)};
}

std::vector<std::pair<std::string, std::string>> settings_after(const Recipe& recipe,
                                                                const PlanVocabulary& vocabulary) {
  std::vector<std::pair<std::string, std::string>> settings = recipe.experiment.settings;
  for (const RecipeStep& step : recipe.steps) {
    if (step.kept_level.empty()) continue;
    for (const RecipeChange& change : changes_of(step)) {
      settings.push_back(setting_of(change.toggle, change.level, vocabulary));
    }
  }
  return settings;
}

std::string step_folder(std::size_t step_index, std::string_view toggle) {
  return folder_name_of(fmt::format("{:02}-{}", step_index + 1, toggle));
}

json to_json(const Recipe& recipe) {
  json steps = json::array();
  for (const RecipeStep& step : recipe.steps) {
    steps.push_back({{"toggle", step.toggle},
                     {"folder", step.folder},
                     {"from_level", step.from_level},
                     {"kept_level", step.kept_level},
                     {"reason", step.reason}});
    for (const RecipeChange& change : step.changes) {
      steps.back()["changes"].push_back(
          {{"toggle", change.toggle}, {"from_level", change.from_level}, {"level", change.level}});
    }
  }
  json undone = json::array();
  for (const LeaveOneOut& row : recipe.leave_one_out) {
    undone.push_back({{"toggle", row.toggle},
                      {"kept_level", row.kept_level},
                      {"from_level", row.from_level},
                      {"verdict", row.verdict},
                      {"effect_ratio", or_null(row.effect_ratio)},
                      {"reason", row.reason},
                      {"is_needed", row.is_needed()}});
  }
  return {{"schema_version", kSchemaVersion},
          {"experiment", to_json(recipe.experiment)},
          {"order", choices_to_json(recipe.order)},
          {"memory_goal_bytes", or_null(recipe.memory_goal_bytes)},
          {"steps", std::move(steps)},
          {"leave_one_out", std::move(undone)},
          {"is_done", recipe.is_done}};
}

Recipe recipe_from_json(const json& object, std::string_view source) {
  check_schema_version(object, source, kSchemaVersion);
  Recipe recipe{
      .experiment = experiment_from_json(json_field<json>(object, source, "experiment"), source),
      .is_done = json_field<bool>(object, source, "is_done")};
  for (const json& choice : json_field<json>(object, source, "order")) {
    recipe.order.push_back(
        {.toggle = json_field<std::string>(choice, source, "toggle"),
         .levels = json_field<std::vector<std::string>>(choice, source, "levels")});
  }
  if (object.contains("memory_goal_bytes") && !object["memory_goal_bytes"].is_null()) {
    recipe.memory_goal_bytes = json_field<std::int64_t>(object, source, "memory_goal_bytes");
  }
  for (const json& step : json_field<json>(object, source, "steps")) {
    recipe.steps.push_back({.toggle = json_field<std::string>(step, source, "toggle"),
                            .folder = json_field<std::string>(step, source, "folder"),
                            .kept_level = json_field<std::string>(step, source, "kept_level"),
                            .from_level = json_field<std::string>(step, source, "from_level"),
                            .reason = json_field<std::string>(step, source, "reason")});
    if (!step.contains("changes")) continue;  // A step of one toggle.
    for (const json& change : json_field<json>(step, source, "changes")) {
      recipe.steps.back().changes.push_back(
          {.toggle = json_field<std::string>(change, source, "toggle"),
           .from_level = json_field<std::string>(change, source, "from_level"),
           .level = json_field<std::string>(change, source, "level")});
    }
  }
  for (const json& row : json_field<json>(object, source, "leave_one_out")) {
    LeaveOneOut undone{.toggle = json_field<std::string>(row, source, "toggle"),
                       .kept_level = json_field<std::string>(row, source, "kept_level"),
                       .from_level = json_field<std::string>(row, source, "from_level"),
                       .verdict = json_field<std::string>(row, source, "verdict"),
                       .reason = json_field<std::string>(row, source, "reason")};
    if (row.contains("effect_ratio") && row["effect_ratio"].is_number()) {
      undone.effect_ratio = row["effect_ratio"].get<double>();
    }
    recipe.leave_one_out.push_back(std::move(undone));
  }
  return recipe;
}

bool is_recipe(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kRecipeFileName);
}

Recipe read_recipe(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kRecipeFileName;
  return recipe_from_json(read_json(path), path.string());
}

}  // namespace steplens
