#include "viewer/data/step_parts.h"

#include <cmath>

#include "tests/viewer/sample_bundle.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::ElementsAre;

TracedArm traced(const std::string& arm, const SampleTimes& times) {
  return {.arm = arm, .breakdown = compute_breakdown(sample_trace(times, arm))};
}

double sum_of(const std::vector<StepPart>& parts) {
  double sum_ns = 0;
  for (const StepPart& part : parts) sum_ns += part.duration_ns;
  return sum_ns;
}

TEST(StepParts, SumToTheStepInEveryDimension) {
  const TracedArm arm = traced("baseline", {});
  const TracedArm* arms[] = {&arm};
  for (std::size_t i = 0; i < kNumStepDimensions; ++i) {
    for (const std::size_t max_parts : {std::size_t{1}, std::size_t{2}, std::size_t{10}}) {
      const auto parts = step_parts(arms, static_cast<StepDimension>(i), max_parts);
      EXPECT_NEAR(sum_of(parts.front()), arm.breakdown.mean_step_ns(), 1e-3);
    }
  }
}

TEST(StepParts, AreTheSameForAllArmsTheLongestFirst) {
  const TracedArm slow = traced("slow", {.optimizer_ns = 900'000});
  const TracedArm fast = traced("fast", {.optimizer_ns = 1'000});
  const TracedArm* arms[] = {&fast, &slow};
  const auto parts = step_parts(arms, StepDimension::kPhase);
  // Forward: 3 x (10 + 40 + 60 + 12) us; backward twice that: 732 us.
  EXPECT_EQ(parts[0][0].key, "optimizer");
  EXPECT_EQ(parts[0][1].key, "backward");
  EXPECT_NEAR(parts[0][1].duration_ns, 732'000, 1e-3);
  EXPECT_EQ(parts[0][2].key, "forward");
  for (std::size_t i = 0; i < parts[0].size(); ++i) EXPECT_EQ(parts[0][i].key, parts[1][i].key);
}

TEST(StepParts, KeepTheTailInOnePart) {
  const TracedArm arm = traced("baseline", {});
  const TracedArm* arms[] = {&arm};
  const auto parts = step_parts(arms, StepDimension::kPhase, 1);
  EXPECT_EQ(parts.front()[0].key, "backward");
  EXPECT_EQ(parts.front()[1].key, "rest");
}

TEST(WaterfallRows, AreTheLargestChangeFirstAndSumToTheDifference) {
  const TracedArm reference = traced("a", {});
  const TracedArm candidate = traced("b", {.gemm_ns = 75'000, .optimizer_ns = 50'000});
  const auto waterfall = compute_waterfall(reference.breakdown, candidate.breakdown);
  ASSERT_TRUE(waterfall.has_value());
  const auto rows = waterfall_rows(*waterfall, StepDimension::kCategory);
  // GEMM: 15 us more in 3 blocks, once forward and twice backward; the optimizer 40 us less.
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].key, "gemm");
  EXPECT_EQ(rows[0].difference_ns, 135'000);
  EXPECT_EQ(rows[1].key, "optimizer");
  EXPECT_EQ(rows[1].difference_ns, -40'000);
  EXPECT_EQ(waterfall->difference_ns, 95'000);
}

TEST(WithSmallOnesFolded, KeepsTheSum) {
  const std::vector<WaterfallRow> rows = {{.key = "gemm", .difference_ns = 500},
                                          {.key = "copy", .difference_ns = -40},
                                          {.key = "norm", .difference_ns = 30}};
  const std::vector<WaterfallRow> folded = with_small_ones_folded(rows, 50);
  ASSERT_EQ(folded.size(), 2U);
  EXPECT_EQ(folded[0].key, "gemm");
  EXPECT_EQ(folded[1].key, "rest");
  EXPECT_EQ(folded[1].difference_ns, -10);
  EXPECT_EQ(with_small_ones_folded(rows, 35).size(), 3U);  // One alone keeps its name.
}

TEST(KeysOfParts, NameIdleClassesCategoriesAndPhases) {
  EXPECT_EQ(idle_of_key("idle.sync"), IdleClass::kSync);
  EXPECT_EQ(idle_of_key("sync"), std::nullopt);
  EXPECT_EQ(idle_of_key("idle.nothing"), std::nullopt);
  EXPECT_EQ(category_of_key("gemm"), KernelCategory::kGemm);
  EXPECT_EQ(phase_of_key("backward"), Phase::kBackward);
  EXPECT_EQ(phase_of_key(""), std::nullopt);
}

}  // namespace
}  // namespace steplens
