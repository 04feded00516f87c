#include "harness/step_counts.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

RunConfig config(std::int64_t accumulation, AccumulationHolds holds) {
  RunConfig result;
  result.global_batch_size = 8;
  result.num_accumulation = accumulation;
  result.accumulation_holds = holds;
  return result;
}

TEST(NumMeasuredStepsFor, IsThirtyOrWhatFitsTenSecondsButAtLeastFive) {
  EXPECT_EQ(num_measured_steps_for(1e6), 30);    // 1 ms
  EXPECT_EQ(num_measured_steps_for(300e6), 30);  // 9 s
  EXPECT_EQ(num_measured_steps_for(400e6), 25);  // 25 x 0.4 s = 10 s
  EXPECT_EQ(num_measured_steps_for(410e6), 24);  // 24.4 fit
  EXPECT_EQ(num_measured_steps_for(3e9), 5);     // 3.3 would fit
  EXPECT_EQ(num_measured_steps_for(1e300), 5);
}

TEST(RoundedCounts, ChangesNothingWhereEveryStepHasTheSameRows) {
  const std::vector<Arm> arms = {{.config = config(1, AccumulationHolds::kGlobalBatch)},
                                 {.config = config(4, AccumulationHolds::kGlobalBatch)}};
  const StepCounts counts{.num_warmup_steps = 7, .num_measured_steps = 30};
  EXPECT_EQ(rounded_counts(counts, arms), counts);
  EXPECT_EQ(counts_of(counts, arms[0].config, arms[1].config), counts);
}

TEST(RoundedCounts, RoundsUpToWholeStepsOfEveryArm) {
  std::vector<Arm> arms = {{.config = config(1, AccumulationHolds::kMicroBatch)},
                           {.config = config(2, AccumulationHolds::kMicroBatch)},
                           {.config = config(3, AccumulationHolds::kMicroBatch)}};
  const StepCounts counts = rounded_counts({.num_warmup_steps = 7, .num_measured_steps = 30}, arms);
  EXPECT_EQ(counts, (StepCounts{12, 30}));  // Multiples of 6.
  EXPECT_EQ(counts_of(counts, arms[0].config, arms[1].config), (StepCounts{6, 15}));
  EXPECT_EQ(counts_of(counts, arms[0].config, arms[2].config), (StepCounts{4, 10}));
  // An arm that cannot run asks for nothing.
  arms[2].not_applicable_reason = "no";
  EXPECT_EQ(rounded_counts({.num_warmup_steps = 7, .num_measured_steps = 30}, arms),
            (StepCounts{8, 30}));
}

TEST(RoundedCounts, GivesEveryArmTheRowsOfTheBaseline) {
  // Baseline 2, arms 1 and 4: the arm with 1 takes twice the steps.
  const std::vector<Arm> arms = {{.config = config(2, AccumulationHolds::kMicroBatch)},
                                 {.config = config(1, AccumulationHolds::kMicroBatch)},
                                 {.config = config(4, AccumulationHolds::kMicroBatch)}};
  const StepCounts counts = rounded_counts({.num_warmup_steps = 3, .num_measured_steps = 5}, arms);
  EXPECT_EQ(counts, (StepCounts{4, 6}));
  for (const Arm& arm : arms) {
    const StepCounts own = counts_of(counts, arms[0].config, arm.config);
    EXPECT_EQ(own.num_measured_steps * effective_global_batch_size(arm.config), 6 * 16);
  }
}

TEST(InBaselineSteps, CountsRowsAndRoundsUp) {
  const RunConfig one = config(1, AccumulationHolds::kMicroBatch);
  const RunConfig four = config(4, AccumulationHolds::kMicroBatch);
  EXPECT_EQ(in_baseline_steps(5, four, one), 20);
  EXPECT_EQ(in_baseline_steps(5, one, four), 2);
  EXPECT_EQ(in_baseline_steps(5, one, one), 5);
}

}  // namespace
}  // namespace steplens
