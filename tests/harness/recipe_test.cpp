#include "harness/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

RecipeArm baseline(std::int64_t peak_bytes = 10 * kGiB) {
  return {.name = "baseline", .peak_allocated_bytes = peak_bytes};
}

RecipeArm arm(const std::string& level, const std::string& verdict, double effect,
              std::int64_t peak_bytes = 10 * kGiB) {
  return {.name = "attention=" + level,
          .toggle = "attention",
          .level = level,
          .verdict = verdict,
          .effect_ratio = effect,
          .peak_allocated_bytes = peak_bytes};
}

std::string kept(const std::vector<RecipeArm>& arms, std::optional<std::int64_t> goal = {}) {
  const RecipeDecision decision = decide_step(arms, goal);
  return decision.kept == nullptr ? "" : decision.kept->level;
}

TEST(DecideStep, KeepsTheFastestOfThoseThatWin) {
  EXPECT_EQ(kept({baseline(), arm("math", "SLOWER", 0.5), arm("flash", "FASTER", 1.2),
                  arm("cudnn", "FASTER", 1.3)}),
            "cudnn");
}

TEST(DecideStep, KeepsNothingThatIsNotProven) {
  const std::vector<RecipeArm> arms = {baseline(), arm("flash", "INCONCLUSIVE", 1.02),
                                       arm("cudnn", "EQUIVALENT", 1.001)};
  EXPECT_EQ(kept(arms), "");
  EXPECT_THAT(decide_step(arms, {}).reason, HasSubstr("attention=flash, +2.00 %, INCONCLUSIVE"));
  EXPECT_EQ(kept({baseline(), arm("flash", "MATHS_DIFFERS", 2)}), "");
}

TEST(DecideStep, SaysWhyNothingCouldBeMeasured) {
  RecipeArm failed{.name = "attention=cudnn",
                   .toggle = "attention",
                   .level = "cudnn",
                   .verdict = "FAILED",
                   .reason = "out of memory"};
  EXPECT_THAT(decide_step(std::vector<RecipeArm>{baseline(), failed}, {}).reason,
              HasSubstr("out of memory"));
}

TEST(DecideStep, AboveTheMemoryGoalTheFastestThatFitsIsKept) {
  const std::vector<RecipeArm> arms = {baseline(40 * kGiB), arm("a", "SLOWER", 0.7, 15 * kGiB),
                                       arm("b", "SLOWER", 0.9, 20 * kGiB),
                                       arm("c", "FASTER", 1.5, 45 * kGiB)};
  EXPECT_EQ(kept(arms, 20 * kGiB), "b");
  EXPECT_EQ(kept(arms, 10 * kGiB), "a") << "none fits: the one that needs least";
  EXPECT_EQ(kept(arms, 64 * kGiB), "c") << "the goal is met already";
}

TEST(DecideStep, WhatLeavesTheMemoryGoalIsNoGain) {
  EXPECT_EQ(kept({baseline(10 * kGiB), arm("a", "FASTER", 1.5, 30 * kGiB)}, 20 * kGiB), "");
}

TEST(JudgeLeaveOneOut, FindsTheArmThatUndoesEachKeptLevel) {
  const std::vector<RecipeStep> steps = {
      {.toggle = "attention", .kept_level = "flash", .from_level = "math"},
      {.toggle = "graph", .kept_level = "", .from_level = "off"},
      {.toggle = "optimizer", .kept_level = "fused", .from_level = "loop"}};
  RecipeArm math = arm("math", "SLOWER", 0.6);
  RecipeArm loop{.name = "optimizer=loop",
                 .toggle = "optimizer",
                 .level = "loop",
                 .verdict = "EQUIVALENT",
                 .effect_ratio = 0.999};
  const std::vector<LeaveOneOut> rows =
      judge_leave_one_out(steps, std::vector<RecipeArm>{baseline(), math, loop});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_TRUE(rows[0].is_needed());
  EXPECT_EQ(rows[1].toggle, "optimizer");
  EXPECT_FALSE(rows[1].is_needed());
}

TEST(RecipeJson, ComesBackAsItWas) {
  Recipe recipe{.experiment = {.model = "nano", .settings = {{"precision", "fp32"}}},
                .order = {{"attention", {}}, {"graph", {"on"}}},
                .memory_goal_bytes = kGiB,
                .steps = {{.toggle = "attention",
                           .folder = "01-attention",
                           .kept_level = "flash",
                           .from_level = "math",
                           .reason = "it wins"}},
                .leave_one_out = {{.toggle = "attention",
                                   .kept_level = "flash",
                                   .from_level = "math",
                                   .verdict = "SLOWER",
                                   .effect_ratio = 0.5}},
                .is_done = true};
  const nlohmann::json json = to_json(recipe);
  EXPECT_EQ(to_json(recipe_from_json(json, "recipe.json")), json);
  EXPECT_EQ(json["leave_one_out"][0]["is_needed"], true);
}

}  // namespace
}  // namespace steplens
