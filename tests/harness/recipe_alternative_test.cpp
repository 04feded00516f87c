#include "harness/recipe_alternative.h"

#include "tests/harness/plan_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::cpu_baseline;

// In this vocabulary a compiled step knows neither a fused optimizer nor accumulation 2 or 4, and
// a fused optimizer no accumulation 4.
std::string_view exclusions(const RunConfig& config) {
  const bool is_compiled = config.compile == Compile::kAoti;
  const bool is_fused = config.optimizer == Optimizer::kFused;
  if (is_compiled && is_fused) return "a compiled step knows no fused optimizer";
  if (is_compiled && config.num_accumulation > 1) return "a compiled step does not accumulate";
  if (is_fused && config.num_accumulation == 4)
    return "fused and accumulation 4 exclude each other";
  return "";
}

PlanVocabulary vocabulary() {
  PlanVocabulary words = testing_support::vocabulary();
  words.why_not = exclusions;
  return words;
}

RecipeStep kept(const std::string& toggle, const std::string& from, const std::string& level) {
  return {.toggle = toggle, .folder = "01-" + toggle, .kept_level = level, .from_level = from};
}

RecipeStep skipped(const std::string& toggle, const std::string& from) {
  return {.toggle = toggle, .from_level = from, .reason = "cannot run"};
}

RunConfig compiled() {
  RunConfig config = cpu_baseline();
  config.compile = Compile::kAoti;
  config.attention = Attention::kFlash;
  config.optimizer = Optimizer::kForeach;
  return config;
}

// compile was kept; the optimizer and accumulation were skipped for it.
Recipe compiled_recipe(std::vector<std::string> accumulations = {"4", "2"}) {
  return {.order = {{"attention", {"flash"}},
                    {"compile", {"aoti"}},
                    {"optimizer", {"fused"}},
                    {"accumulation", std::move(accumulations)}},
          .steps = {kept("attention", "math", "flash"), kept("compile", "off", "aoti"),
                    skipped("optimizer", "foreach"), skipped("accumulation", "1")}};
}

TEST(NextAlternative, TakesAllThatOneKeptToggleExcludes) {
  const auto alternative = next_alternative(compiled_recipe(), vocabulary(), compiled());
  ASSERT_TRUE(alternative.has_value());
  EXPECT_EQ(alternative->undone, (RecipeChange{"compile", "aoti", "off"}));
  // Accumulation 4 does not go with the fused optimizer, which came first; 2 does.
  EXPECT_THAT(alternative->taken, ElementsAre(RecipeChange{"optimizer", "foreach", "fused"},
                                              RecipeChange{"accumulation", "1", "2"}));
  EXPECT_EQ(alternative_text(alternative->changes()),
            "optimizer=fused+accumulation=2 instead of compile=aoti");
}

TEST(NextAlternative, LeavesOutWhatCannotRunBesideTheOthers) {
  const auto alternative = next_alternative(compiled_recipe({"4"}), vocabulary(), compiled());
  ASSERT_TRUE(alternative.has_value());
  EXPECT_THAT(alternative->taken, ElementsAre(RecipeChange{"optimizer", "foreach", "fused"}));
}

TEST(NextAlternative, IsTriedOnce) {
  Recipe recipe = compiled_recipe();
  RecipeStep tried{.toggle = "compile", .folder = "05-without-compile", .from_level = "aoti"};
  tried.changes = next_alternative(recipe, vocabulary(), compiled())->changes();
  recipe.steps.push_back(tried);
  EXPECT_FALSE(next_alternative(recipe, vocabulary(), compiled()).has_value());
}

TEST(NextAlternative, WhatAnAlternativeTookIsNoLongerSkipped) {
  Recipe recipe = compiled_recipe();
  RecipeStep tried{.toggle = "compile",
                   .folder = "05-without-compile",
                   .kept_level = "off",
                   .from_level = "aoti"};
  tried.changes = next_alternative(recipe, vocabulary(), compiled())->changes();
  recipe.steps.push_back(tried);
  RunConfig now = compiled();
  now.compile = Compile::kOff;
  now.optimizer = Optimizer::kFused;
  now.num_accumulation = 2;
  EXPECT_FALSE(next_alternative(recipe, vocabulary(), now).has_value());
}

TEST(NextAlternative, NothingIsThereWhereNothingWasExcluded) {
  Recipe recipe = compiled_recipe();
  // Skipped for another reason than a kept toggle: no CUDA device, "it stands there already".
  recipe.order[2] = {"graph", {"on"}};
  recipe.steps[2] = skipped("graph", "off");
  recipe.order[3] = {"optimizer", {"foreach"}};
  recipe.steps[3] = skipped("optimizer", "foreach");
  EXPECT_FALSE(next_alternative(recipe, vocabulary(), compiled()).has_value());
  // Tried and not kept is not excluded.
  recipe = compiled_recipe();
  recipe.steps[2].folder = "03-optimizer";
  recipe.steps[3].folder = "04-accumulation";
  EXPECT_FALSE(next_alternative(recipe, vocabulary(), compiled()).has_value());
}

TEST(KeptChanges, FollowAnAlternative) {
  Recipe recipe = compiled_recipe();
  RecipeStep tried{.toggle = "compile",
                   .folder = "05-without-compile",
                   .kept_level = "off",
                   .from_level = "aoti",
                   .changes = {{"compile", "aoti", "off"}, {"optimizer", "foreach", "fused"}}};
  recipe.steps.push_back(tried);
  EXPECT_THAT(kept_changes(recipe.steps),
              ElementsAre(RecipeChange{"attention", "math", "flash"},
                          RecipeChange{"optimizer", "foreach", "fused"}))
      << "compile is back where it was";
  using Setting = std::pair<std::string, std::string>;
  EXPECT_THAT(settings_after(recipe, vocabulary()),
              ElementsAre(Setting("attention", "flash"), Setting("compile", "aoti"),
                          Setting("compile", "off"), Setting("optimizer", "fused")));
  const nlohmann::json json = to_json(recipe);
  EXPECT_EQ(to_json(recipe_from_json(json, "recipe.json")), json);
  EXPECT_EQ(json["steps"][4]["changes"][1]["level"], "fused");
  // Not kept: nothing changes.
  recipe.steps.back().kept_level.clear();
  EXPECT_THAT(kept_changes(recipe.steps), ElementsAre(RecipeChange{"attention", "math", "flash"},
                                                      RecipeChange{"compile", "off", "aoti"}));
}

TEST(KeptChanges, NothingKeptNothingChanged) { EXPECT_THAT(kept_changes({}), IsEmpty()); }

}  // namespace
}  // namespace steplens
