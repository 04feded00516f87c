#include "reports/overhead/tracing_cost.h"

#include <cmath>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/verify.h"

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

TracingCosts costs_of(const BundleBuilder& builder) {
  return compute_tracing_costs(builder.bundle()).value();
}

TEST(TracingCosts, AreOfPairsInTheSameRound) {
  const TracingCosts costs = costs_of(three_rounds());
  ASSERT_EQ(costs.of_steplens.size(), 2U);
  const TracingCost& null_cost = costs.of_steplens[0];
  EXPECT_EQ(null_cost.arm, "tracing=null");
  EXPECT_EQ(null_cost.against, "baseline");
  EXPECT_NEAR(null_cost.cost_ratio, 0.01, 1e-9);
  EXPECT_FALSE(null_cost.kernel_cost_ns);  // It recorded none.
  const TracingCost& full = costs.of_steplens[1];
  EXPECT_NEAR(full.cost_ratio, std::cbrt(1.01 * 1.012 * 1.014) - 1, 1e-9);
  // 100 kernels a step share 1.2 % of 2 ms: 240 ns each.
  EXPECT_NEAR(*full.num_recorded_kernels, 100, 1e-9);
  EXPECT_NEAR(*full.kernel_cost_ns, 240, 0.1);
}

TEST(TracingCosts, TheBoundIsOneSided) {
  const TracingCosts costs = costs_of(three_rounds());
  ASSERT_TRUE(costs.of_collector);
  EXPECT_EQ(costs.of_collector->against, "tracing=null");
  // t(0.95, 2) = 2.919986 and t(0.975, 2) = 4.302653, from a table.
  const double logs[] = {0, std::log(2.024 / 2.020), std::log(2.028 / 2.020)};
  const double mean = (logs[0] + logs[1] + logs[2]) / 3;
  double squares = 0;
  for (const double value : logs) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / 2) / std::sqrt(3.0);
  EXPECT_NEAR(costs.of_collector->cost_upper_ratio, std::exp(mean + 2.919986 * error) - 1, 1e-8);
  EXPECT_NEAR(costs.of_collector->cost_high_ratio, std::exp(mean + 4.302653 * error) - 1, 1e-8);
  EXPECT_NEAR(costs.of_collector->cost_low_ratio, std::exp(mean - 4.302653 * error) - 1, 1e-8);
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
  const TracingCosts costs = costs_of(builder);
  ASSERT_TRUE(costs.of_torch_profiler);
  EXPECT_EQ(costs.of_torch_profiler->against, "torch-eager");
  EXPECT_NEAR(costs.of_torch_profiler->cost_ratio, 0.02, 1e-9);
  EXPECT_NEAR(*costs.of_torch_profiler->kernel_cost_ns, 750, 1e-3);  // 60 us over 80 kernels.
  EXPECT_NEAR(*costs.torch_profiler_kernel_ns, 2.5e6, 1e-3);
}

TEST(TracingCosts, HaveNoPriceAKernelWhereTheCostMayBeNothing) {
  const std::optional<TracingCost> collector = costs_of(three_rounds()).of_collector;
  ASSERT_TRUE(collector);
  // 0, 0.198 and 0.396 % in three rounds: 0.198 +- 4.303 * 0.198 / sqrt(3) %.
  EXPECT_LT(collector->cost_low_ratio, 0);
  EXPECT_NEAR(*collector->num_recorded_kernels, 100, 1e-9);
  EXPECT_FALSE(collector->kernel_cost_ns);
}

TEST(TracingCosts, StandInTheResults) {
  const nlohmann::json costs =
      to_json(compute_results(three_rounds().bundle())).at("tracing_costs");
  EXPECT_TRUE(costs.at("of_torch_profiler").is_null());
  EXPECT_TRUE(costs.at("torch_profiler_kernel_ns").is_null());
  ASSERT_EQ(costs.at("of_steplens").size(), 2U);
  EXPECT_EQ(costs["of_steplens"][0]["arm"], "tracing=null");
  EXPECT_NEAR(costs["of_steplens"][0]["cost_ratio"].get<double>(), 0.01, 1e-9);
  EXPECT_TRUE(costs["of_steplens"][0]["kernel_cost_ns"].is_null());
  const nlohmann::json& full = costs["of_steplens"][1];
  EXPECT_EQ(full["against"], "baseline");
  EXPECT_EQ(full["num_rounds"], 3);
  EXPECT_NEAR(full["against_step_ns"].get<double>(), 2e6, 1e-6);
  EXPECT_NEAR(full["kernel_cost_ns"].get<double>(), 240, 0.1);
  EXPECT_EQ(costs["of_collector"]["against"], "tracing=null");
}

TEST(TracingCosts, OfStoredResultsAreReadBack) {
  const Results results = compute_results(three_rounds().bundle());
  const Results read = results_from_json(to_json(results), "results.json");
  ASSERT_TRUE(read.tracing_costs && read.tracing_costs->of_collector);
  EXPECT_EQ(read.tracing_costs->of_collector->cost_upper_ratio,
            results.tracing_costs->of_collector->cost_upper_ratio);
  EXPECT_FALSE(read.tracing_costs->of_torch_profiler);
}

TEST(TracingCosts, AreVerified) {
  const TemporaryFolder folder;
  const std::filesystem::path bundle = folder.path() / "example";
  three_rounds().write(bundle);
  EXPECT_THAT(verify(bundle, {.checks_git = false}), testing::IsEmpty());
  nlohmann::json results = read_json(bundle / "results.json");
  results["tracing_costs"]["of_steplens"][1]["cost_ratio"] = 0.005;
  write_json_atomically(bundle / "results.json", results);
  EXPECT_THAT(verify(bundle, {.checks_git = false}),
              testing::ElementsAre(testing::StartsWith(
                  "results.json: tracing_costs.of_steplens[1].cost_ratio: stored 0.005, "
                  "recomputed 0.01199")));
}

TEST(TracingCosts, AreAbsentWithoutSuchArms) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_rounds({{"baseline", {2'000'000, 2'000'000}}, {"optimizer=fused", {1, 1}}});
  EXPECT_FALSE(compute_tracing_costs(builder.bundle()));
  const Results results = compute_results(builder.bundle());
  EXPECT_FALSE(results.tracing_costs);
  EXPECT_TRUE(to_json(results).at("tracing_costs").is_null());
}

}  // namespace
}  // namespace steplens
