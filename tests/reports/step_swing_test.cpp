#include "reports/results/step_swing.h"

#include <vector>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

using Steps = std::vector<std::int64_t>;

BlockRecord block(const Steps& step_ns) {
  BlockRecord record;
  record.steps.step_wall_ns = step_ns;
  return record;
}

std::optional<StepSwing> swing_of(const std::vector<Steps>& blocks) {
  std::vector<BlockRecord> records;
  records.reserve(blocks.size());
  for (const Steps& steps : blocks) records.push_back(block(steps));
  std::vector<const BlockRecord*> pointers;
  pointers.reserve(records.size());
  for (const BlockRecord& record : records) pointers.push_back(&record);
  return find_step_swing(pointers);
}

// Ten steps of 100 of which the sixth takes 100 + `extra`.
Steps sixth_is_longer(std::int64_t extra) {
  Steps steps(10, 100);
  steps[5] += extra;
  return steps;
}

TEST(StepSwing, IsTheStepThatIsLongerInEveryBlock) {
  const auto found = swing_of({sixth_is_longer(10), sixth_is_longer(8), sixth_is_longer(12)});
  ASSERT_TRUE(found.has_value());
  const StepSwing swing = found.value_or(StepSwing{});
  EXPECT_EQ(swing.step_index, 5);
  EXPECT_NEAR(swing.excess_ratio, 0.10, 1e-12);
  EXPECT_NEAR(swing.mean_excess_ratio, 0.01, 1e-12);  // 10 of 1000.
}

TEST(StepSwing, IsNoChanceLengthOfOneBlock) {
  EXPECT_FALSE(swing_of({sixth_is_longer(60), sixth_is_longer(0), sixth_is_longer(0)}));
  // 9 % in the median, but one of three blocks does not show it.
  EXPECT_FALSE(swing_of({sixth_is_longer(9), sixth_is_longer(9), sixth_is_longer(2)}));
  const std::vector<Steps> five(5, sixth_is_longer(9));
  std::vector<Steps> six = five;
  six.push_back(sixth_is_longer(2));
  EXPECT_TRUE(swing_of(six)) << "of six blocks one may be another";
  six[0] = sixth_is_longer(2);
  EXPECT_FALSE(swing_of(six));
  EXPECT_FALSE(swing_of(std::vector<Steps>(6, sixth_is_longer(4))))
      << "below 5 % nobody would see it";
}

TEST(StepSwing, LeavesOutTheEdgesOfABlockAndWhatIsTooShort) {
  Steps edges(10, 100);
  edges.front() = edges.back() = 150;
  EXPECT_FALSE(swing_of({edges, edges, edges}));
  EXPECT_FALSE(swing_of({sixth_is_longer(10), sixth_is_longer(10)})) << "two blocks";
  EXPECT_FALSE(swing_of({{1, 1, 2, 1}, {1, 1, 2, 1}, {1, 1, 2, 1}})) << "four steps";
  Steps longer = sixth_is_longer(10);
  longer.push_back(100);
  EXPECT_FALSE(swing_of({sixth_is_longer(10), sixth_is_longer(10), longer}));
  EXPECT_FALSE(swing_of({Steps(10, 0), Steps(10, 0), Steps(10, 0)}));
}

TEST(StepSwing, IsAWarningThatNamesArmAndStep) {
  BundleBuilder builder;
  builder.manifest().num_measured_steps = 10;
  builder.add_arm("optimizer", "fused");
  for (int round = 0; round < 6; ++round) {
    builder.add_round({{"baseline", 100'000}, {"optimizer=fused", 100'000}});
  }
  Bundle bundle = builder.bundle();
  const auto set_steps = [&](std::int64_t extra_ns) {
    for (BlockRecord& record : bundle.blocks) {
      record.steps.step_wall_ns = sixth_is_longer(record.arm == "baseline" ? 0 : extra_ns);
      record.steps.num_valid_tokens.assign(10, 1000);
    }
  };
  set_steps(20);
  EXPECT_THAT(compute_results(bundle).warnings,
              Contains(HasSubstr("optimizer=fused (step 6: +20.0 %; mean step: +2.00 %)")));
  set_steps(2);
  EXPECT_THAT(compute_results(bundle).warnings, Not(Contains(HasSubstr("steady state"))));
}

}  // namespace
}  // namespace steplens
