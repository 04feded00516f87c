#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/models.h"
#include "harness/recipe.h"
#include "harness/recipe_alternative.h"
#include "workloads/catalog/toggles.h"

namespace steplens {
namespace {

// The order that a recipe takes by default, against the toggles of this program.
TEST(DefaultRecipeOrder, NamesTogglesAndLevelsThatThereAre) {
  for (const ToggleChoice& choice : parse_toggle_choices(default_recipe_order())) {
    const Toggle* toggle = find_toggle(all_toggles(), choice.toggle);
    ASSERT_NE(toggle, nullptr) << choice.toggle;
    for (const std::string& level : choice.levels) {
      EXPECT_NE(find_level(*toggle, level), nullptr) << choice.toggle << "=" << level;
    }
  }
}

// On a GPU compile=aoti wins first and excludes all fused operators: these come in its place.
TEST(DefaultRecipeOrder, TriesTheFusedOperatorsInThePlaceOfCompile) {
  const PlanVocabulary vocabulary{.toggles = all_toggles(), .why_not = why_not};
  RunConfig now = baseline_config(Device::kCuda, "gpt2-124m");
  now.compile = Compile::kAoti;
  now.attention = Attention::kCudnn;
  now.optimizer = Optimizer::kMultiTensor;
  now.graph = true;
  ASSERT_EQ(why_not(now), "");
  Recipe recipe{.order = parse_toggle_choices(default_recipe_order())};
  for (const ToggleChoice& choice : recipe.order) {
    const Toggle& toggle = *find_toggle(vocabulary.toggles, choice.toggle);
    RecipeStep step{.toggle = choice.toggle, .from_level = current_level(toggle, now)};
    if (choice.toggle == "compile") {
      step = {.toggle = "compile", .folder = "x", .kept_level = "aoti", .from_level = "off"};
    } else if (choice.toggle == "graph") {
      step = {.toggle = "graph", .folder = "x", .kept_level = "on", .from_level = "off"};
    } else if (choice.toggle == "accumulation" || choice.toggle == "attention" ||
               choice.toggle == "optimizer" || choice.toggle == "precision") {
      step.folder = "x";  // Tried, as it can be beside compile=aoti.
    }
    recipe.steps.push_back(step);
  }
  const auto alternative = next_alternative(recipe, vocabulary, now);
  ASSERT_TRUE(alternative.has_value());
  EXPECT_EQ(alternative_text(alternative->changes()),
            "norm=fused+rope=fused+mlp=fused+loss=fused+loss_rows=all+embedding=fused+"
            "weights=bf16_master+residual=fused+gemm=tuned instead of compile=aoti");
  // On a CPU none of them can run, with or without compile.
  RunConfig cpu = baseline_config(Device::kCpu, "nano");
  cpu.compile = Compile::kAoti;
  EXPECT_FALSE(next_alternative(recipe, vocabulary, cpu).has_value());
}

}  // namespace
}  // namespace steplens
