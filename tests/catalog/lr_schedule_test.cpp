#include "workloads/catalog/lr_schedule.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

RunConfig schedule() {
  RunConfig config;
  config.learning_rate = 1.0;
  config.min_learning_rate_ratio = 0.1;
  config.num_lr_warmup_steps = 4;
  config.num_lr_total_steps = 12;
  return config;
}

TEST(LearningRateAt, RisesInEqualStepsToThePeakAtTheWarmupsLastStep) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(), 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(), 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(), 3), 1.0);
}

TEST(LearningRateAt, FallsAsACosineToTheFloor) {
  // Half of the 8 steps after the warm-up: the middle of 1.0 and 0.1. A quarter: cos(pi/4).
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule(), 4), 1.0);
  EXPECT_NEAR(learning_rate_at(schedule(), 6), 0.1 + 0.45 * (1 + 0.70710678118654752), 1e-12);
  EXPECT_NEAR(learning_rate_at(schedule(), 8), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate_at(schedule(), 12), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate_at(schedule(), 500), 0.1, 1e-12);
}

TEST(LearningRateAt, StartsAtThePeakWithoutWarmup) {
  RunConfig config = schedule();
  config.num_lr_warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 1.0);
}

}  // namespace
}  // namespace steplens
