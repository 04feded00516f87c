#include "reports/overhead/tracing_cost.h"

#include <cmath>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

// Three rounds: a null collector costs 1 %, the full one 1 %, 1.2 % and 1.4 % of the 2 ms step.
BundleBuilder three_rounds() {
  BundleBuilder builder;
  builder.add_arm("tracing", "null");
  builder.add_arm("tracing", "full");
  builder.add_rounds({{"baseline", {2'000'000, 2'000'000, 2'000'000}},
                      {"tracing=null", {2'020'000, 2'020'000, 2'020'000}},
                      {"tracing=full", {2'020'000, 2'024'000, 2'028'000}}});
  builder.edit_blocks("tracing=full", [](BlockRecord& block) {
    block.evidence["counters"] = {{"traced_kernels", 400}};  // Of 4 steps.
  });
  return builder;
}

TEST(TracingCosts, AreOfPairsInTheSameRound) {
  const TracingCosts costs = compute_tracing_costs(three_rounds().bundle());
  ASSERT_EQ(costs.of_steplens.size(), 2U);
  const TracingCost& null_cost = costs.of_steplens[0];
  EXPECT_EQ(null_cost.arm, "tracing=null");
  EXPECT_EQ(null_cost.against, "baseline");
  EXPECT_NEAR(null_cost.ratio, 0.01, 1e-9);
  EXPECT_FALSE(null_cost.ns_per_kernel());
  const TracingCost& full = costs.of_steplens[1];
  EXPECT_NEAR(full.ratio, std::cbrt(1.01 * 1.012 * 1.014) - 1, 1e-9);
  // 100 kernels a step share 1.2 % of 2 ms: 240 ns each.
  EXPECT_NEAR(*full.num_kernels, 100, 1e-9);
  EXPECT_NEAR(*full.ns_per_kernel(), 240, 0.1);
}

TEST(TracingCosts, TheBoundIsOneSided) {
  const TracingCosts costs = compute_tracing_costs(three_rounds().bundle());
  ASSERT_TRUE(costs.of_collector);
  EXPECT_EQ(costs.of_collector->against, "tracing=null");
  // t(0.95, 2) = 2.919986 and t(0.975, 2) = 4.302653, from a table.
  const double logs[] = {0, std::log(2.024 / 2.020), std::log(2.028 / 2.020)};
  const double mean = (logs[0] + logs[1] + logs[2]) / 3;
  double squares = 0;
  for (const double value : logs) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / 2) / std::sqrt(3.0);
  EXPECT_NEAR(costs.of_collector->upper_ratio, std::exp(mean + 2.919986 * error) - 1, 1e-8);
  EXPECT_NEAR(costs.of_collector->high_ratio, std::exp(mean + 4.302653 * error) - 1, 1e-8);
  EXPECT_NEAR(costs.of_collector->low_ratio, std::exp(mean - 4.302653 * error) - 1, 1e-8);
}

TEST(TracingCosts, TakeTorchProfilerAgainstItsOwnUntracedStep) {
  BundleBuilder builder = three_rounds();
  for (const char* name : {"torch-eager", "torch-profiler"}) {
    Arm arm{.name = name, .reference = "baseline", .config = builder.manifest().baseline};
    arm.command = {"python3"};
    builder.manifest().arms.push_back(std::move(arm));
  }
  for (int round = 0; round < 3; ++round) {
    builder.add_block("torch-eager", BlockKind::kThroughput, round, 3'000'000);
    BlockRecord& block =
        builder.add_block("torch-profiler", BlockKind::kThroughput, round, 3'060'000);
    block.evidence["profiler"] = {{"num_kernels", 80.0}, {"kernel_ns", 2.5e6}};
  }
  const TracingCosts costs = compute_tracing_costs(builder.bundle());
  ASSERT_TRUE(costs.of_torch_profiler);
  EXPECT_EQ(costs.of_torch_profiler->against, "torch-eager");
  EXPECT_NEAR(costs.of_torch_profiler->ratio, 0.02, 1e-9);
  EXPECT_NEAR(*costs.of_torch_profiler->ns_per_kernel(), 750, 1e-3);  // 60 us over 80 kernels.
  EXPECT_NEAR(*costs.torch_profiler_kernel_ns, 2.5e6, 1e-3);
}

TEST(TracingCosts, AreEmptyWithoutSuchArms) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_rounds({{"baseline", {2'000'000, 2'000'000}}, {"optimizer=fused", {1, 1}}});
  const TracingCosts costs = compute_tracing_costs(builder.bundle());
  EXPECT_TRUE(costs.of_steplens.empty());
  EXPECT_FALSE(costs.of_collector);
  EXPECT_FALSE(costs.of_torch_profiler);
}

}  // namespace
}  // namespace steplens
