#include "harness/recipe_alternative.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/error.h"

namespace steplens {
namespace {

// `config` with a level of a toggle applied; absent if this program does not know it.
std::optional<RunConfig> with_level(RunConfig config, const PlanVocabulary& vocabulary,
                                    std::string_view toggle, std::string_view level) {
  const Toggle* known = find_toggle(vocabulary.toggles, toggle);
  const Level* edit = known == nullptr ? nullptr : find_level(*known, level);
  if (edit == nullptr) return std::nullopt;
  edit->apply(config);
  return config;
}

bool can_run(const RunConfig& config, const PlanVocabulary& vocabulary) {
  for (const Toggle& toggle : vocabulary.toggles) {
    const Level* level = find_level(toggle, current_level(toggle, config));
    if (level != nullptr && level->why_not != nullptr && !level->why_not(config).empty()) {
      return false;
    }
  }
  return vocabulary.why_not == nullptr || vocabulary.why_not(config).empty();
}

std::vector<std::string> levels_to_try(const ToggleChoice& choice, const Toggle& toggle,
                                       const std::string& from_level) {
  std::vector<std::string> levels = choice.levels;
  if (levels.empty()) {
    for (const Level& level : toggle.levels) levels.emplace_back(level.name);
  }
  std::erase(levels, from_level);
  return levels;
}

// The first level of `choice` that runs on top of `config`, and the config with it.
std::optional<std::pair<std::string, RunConfig>> first_that_runs(const ToggleChoice& choice,
                                                                 const PlanVocabulary& vocabulary,
                                                                 const RunConfig& config) {
  const Toggle* toggle = find_toggle(vocabulary.toggles, choice.toggle);
  if (toggle == nullptr) return std::nullopt;
  for (const std::string& level : levels_to_try(choice, *toggle, current_level(*toggle, config))) {
    const auto changed = with_level(config, vocabulary, choice.toggle, level);
    if (changed && can_run(*changed, vocabulary)) return std::pair(level, *changed);
  }
  return std::nullopt;
}

bool was_tried(const Recipe& recipe, std::string_view undone_toggle) {
  return std::ranges::any_of(recipe.steps, [&](const RecipeStep& step) {
    return !step.changes.empty() && step.toggle == undone_toggle;
  });
}

}  // namespace

std::vector<RecipeChange> RecipeAlternative::changes() const {
  std::vector<RecipeChange> all = {undone};
  all.insert(all.end(), taken.begin(), taken.end());
  return all;
}

std::optional<RecipeAlternative> next_alternative(const Recipe& recipe,
                                                  const PlanVocabulary& vocabulary,
                                                  const RunConfig& now) {
  const std::vector<RecipeChange> all_kept = kept_changes(recipe.steps);
  for (const RecipeChange& kept : all_kept) {
    if (was_tried(recipe, kept.toggle)) continue;
    std::optional<RunConfig> config = with_level(now, vocabulary, kept.toggle, kept.from_level);
    if (!config || !can_run(*config, vocabulary)) continue;
    RecipeAlternative alternative{
        .undone = {.toggle = kept.toggle, .from_level = kept.level, .level = kept.from_level}};
    for (std::size_t i = 0; i < recipe.order.size() && i < recipe.steps.size(); ++i) {
      const RecipeStep& step = recipe.steps[i];
      const ToggleChoice& choice = recipe.order[i];
      // An alternative that was kept took what it could of what had been skipped.
      const bool is_skipped =
          step.folder.empty() && step.changes.empty() &&
          std::ranges::find(all_kept, step.toggle, &RecipeChange::toggle) == all_kept.end();
      if (!is_skipped || first_that_runs(choice, vocabulary, now)) continue;
      const auto taken = first_that_runs(choice, vocabulary, *config);
      if (!taken) continue;
      alternative.taken.push_back(
          {.toggle = step.toggle, .from_level = step.from_level, .level = taken->first});
      config = taken->second;
    }
    if (!alternative.taken.empty()) return alternative;
  }
  return std::nullopt;
}

std::string alternative_arm_name(std::string_view undone_toggle) {
  return fmt::format("without-{}", undone_toggle);
}

std::string alternative_text(std::span<const RecipeChange> changes) {
  SL_CHECK(changes.size() > 1);
  std::vector<std::string> taken;
  for (const RecipeChange& change : changes.subspan(1)) {
    taken.push_back(fmt::format("{}={}", change.toggle, change.level));
  }
  return fmt::format("{} instead of {}={}", fmt::join(taken, "+"), changes.front().toggle,
                     changes.front().from_level);
}

}  // namespace steplens
