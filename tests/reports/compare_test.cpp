#include "reports/compare.h"

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Baseline and optimizer=fused, eight rounds.
BundleBuilder two_arms(const std::vector<std::int64_t>& baseline,
                       const std::vector<std::int64_t>& fused) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_rounds({{"baseline", baseline}, {"optimizer=fused", fused}});
  return builder;
}

const ArmComparison& arm_of(const BundleComparison& comparison, std::string_view name) {
  for (const ArmComparison& arm : comparison.arms) {
    if (arm.name == name) return arm;
  }
  throw std::out_of_range(std::string(name));
}

// SciPy 1.17: ttest_ind(equal_var=False).confidence_interval(0.95) of the log rates.
TEST(CompareBundles, GivesWelchsIntervalOfTheRates) {
  const EightRounds steps;
  const BundleComparison comparison = compare_bundles(two_arms(steps.same, steps.base).bundle(),
                                                      two_arms(steps.same, steps.fast).bundle());
  const ArmComparison& arm = arm_of(comparison, "optimizer=fused");
  EXPECT_NEAR(*arm.rate_ratio, 1.0308446545699894, 1e-12);
  EXPECT_NEAR(*arm.rate_low_ratio, 1.0287009252330515, 1e-9);
  EXPECT_NEAR(*arm.rate_high_ratio, 1.0329928512650848, 1e-9);
  EXPECT_FALSE(comparison.has_regression);
  EXPECT_DOUBLE_EQ(*arm_of(comparison, "baseline").rate_ratio, 1);
}

TEST(CompareBundles, FindsARateThatFellBeyondTheThreshold) {
  const EightRounds steps;
  const Bundle before = two_arms(steps.fast, steps.fast).bundle();
  const Bundle after = two_arms(steps.base, steps.base).bundle();
  const BundleComparison comparison = compare_bundles(before, after);
  EXPECT_TRUE(comparison.has_regression);
  EXPECT_TRUE(arm_of(comparison, "baseline").is_regression) << "the baseline counts too";
  // 1 / 1.0308446 [1 / 1.0329929, 1 / 1.0287009].
  EXPECT_EQ(arm_of(comparison, "optimizer=fused").reason, "rate changed by -3.0 % [-3.2, -2.8]");
  EXPECT_DOUBLE_EQ(*arm_of(comparison, "optimizer=fused").effect_ratio_ratio, 1);
  EXPECT_FALSE(compare_bundles(before, after, {.threshold_ratio = 0.03}).has_regression);
}

TEST(CompareBundles, ProvesNothingWithOneBlockASide) {
  BundleBuilder before;
  before.add_round({{"baseline", 1'000'000}});
  BundleBuilder after;
  after.add_round({{"baseline", 2'000'000}});
  const BundleComparison comparison = compare_bundles(before.bundle(), after.bundle());
  EXPECT_DOUBLE_EQ(*comparison.arms[0].rate_ratio, 0.5);
  EXPECT_FALSE(comparison.arms[0].rate_high_ratio);
  EXPECT_FALSE(comparison.has_regression);
}

TEST(CompareBundles, FindsAVerdictThatGotWorse) {
  const EightRounds steps;
  const Bundle faster = two_arms(steps.base, steps.fast).bundle();
  const Bundle equal = two_arms(steps.base, steps.same).bundle();
  BundleBuilder failing = two_arms(steps.base, steps.fast);
  failing.manifest().failed_arms["optimizer=fused"] = "crashed twice";
  EXPECT_EQ(arm_of(compare_bundles(faster, failing.bundle()), "optimizer=fused").reason,
            "verdict FASTER became FAILED");
  EXPECT_THAT(arm_of(compare_bundles(faster, equal), "optimizer=fused").reason,
              HasSubstr("verdict FASTER became EQUIVALENT"));
  EXPECT_FALSE(compare_bundles(equal, faster).has_regression);
}

TEST(CompareBundles, TakesNoRegressionFromAVerdictThatBecameUncertain) {
  const EightRounds steps;
  const Bundle faster = two_arms(steps.base, steps.fast).bundle();
  BundleBuilder fewer;
  fewer.add_arm("optimizer", "fused");
  for (std::size_t r = 0; r < 3; ++r) {
    fewer.add_round({{"baseline", steps.base[r]}, {"optimizer=fused", steps.fast[r]}});
  }
  EXPECT_FALSE(compare_bundles(faster, fewer.bundle()).has_regression);
}

TEST(CompareBundles, NamesOtherMachinesModelsAndConfigs) {
  const EightRounds steps;
  BundleBuilder before = two_arms(steps.base, steps.base);
  BundleBuilder after = two_arms(steps.base, steps.base);
  before.manifest().gpu_name = "NVIDIA H200";
  after.manifest().gpu_name = "NVIDIA H100 PCIe";
  after.manifest().baseline.model = "gpt2-124m";
  for (Arm& arm : after.manifest().arms) arm.config.model = "gpt2-124m";
  after.manifest().arms[1].config.weight_decay = 0;
  EXPECT_THAT(compare_bundles(before.bundle(), after.bundle()).differences,
              ElementsAre("gpu_name: NVIDIA H200 against NVIDIA H100 PCIe",
                          "model: \"nano\" against \"gpt2-124m\"",
                          "optimizer=fused: model: \"nano\" against \"gpt2-124m\"",
                          "optimizer=fused: weight_decay: 0.1 against 0.0"));
  EXPECT_THAT(compare_bundles(before.bundle(), before.bundle()).differences, IsEmpty());
}

TEST(CompareBundles, ListsArmsThatOnlyOneBundleHas) {
  const EightRounds steps;
  BundleBuilder other;
  other.add_arm("attention", "math");
  other.add_rounds({{"baseline", steps.base}, {"attention=math", steps.base}});
  const BundleComparison comparison =
      compare_bundles(two_arms(steps.base, steps.fast).bundle(), other.bundle());
  ASSERT_EQ(comparison.arms.size(), 3U);
  EXPECT_EQ(arm_of(comparison, "optimizer=fused").reason, "only in the first bundle");
  EXPECT_EQ(arm_of(comparison, "attention=math").reason, "only in the second bundle");
  EXPECT_FALSE(comparison.has_regression);
}

TEST(ComparisonOutputs, HoldTheSameNumbers) {
  const EightRounds steps;
  const BundleComparison comparison = compare_bundles(two_arms(steps.base, steps.fast).bundle(),
                                                      two_arms(steps.base, steps.base).bundle());
  const nlohmann::json json = to_json(comparison);
  EXPECT_EQ(json["has_regression"], true);
  EXPECT_EQ(json["arms"][1]["name"], "optimizer=fused");
  EXPECT_EQ(json["arms"][1]["baseline_verdict"], "FASTER");
  EXPECT_TRUE(json["arms"][0]["baseline_verdict"].is_null());
  EXPECT_NEAR(json["arms"][1]["rate_ratio"], 1 / 1.0308446545699894, 1e-12);
  EXPECT_THAT(comparison_table(comparison).rows[1],
              ElementsAre("optimizer=fused", "-3.0 % [-3.2, -2.8]", "-3.0 %", "FASTER",
                          "EQUIVALENT", "REGRESSION"));
}

TEST(CompareBundles, FindsMemoryThatGrewOnlyWhereAsked) {
  const EightRounds steps;
  BundleBuilder before = two_arms(steps.base, steps.fast);
  BundleBuilder after = two_arms(steps.base, steps.fast);
  before.edit_blocks("optimizer=fused",
                     [](BlockRecord& block) { block.memory["peak_allocated_bytes"] = 1000; });
  after.edit_blocks("optimizer=fused",
                    [](BlockRecord& block) { block.memory["peak_allocated_bytes"] = 1060; });
  EXPECT_FALSE(compare_bundles(before.bundle(), after.bundle()).has_regression);
  EXPECT_FALSE(compare_bundles(before.bundle(), after.bundle(), {.memory_threshold_ratio = 0.06})
                   .has_regression);
  const BundleComparison comparison =
      compare_bundles(before.bundle(), after.bundle(), {.memory_threshold_ratio = 0.05});
  EXPECT_DOUBLE_EQ(*arm_of(comparison, "optimizer=fused").peak_ratio, 1.06);
  EXPECT_EQ(arm_of(comparison, "optimizer=fused").reason, "peak memory changed by +6.0 %");
  EXPECT_TRUE(comparison.has_regression);
}

// The grammar of workflow commands: %, CR and LF are escaped; in properties colon and comma too.
TEST(GithubAnnotations, AreErrorsForRegressionsAndWarningsForOtherExperiments) {
  BundleComparison comparison{
      .arms = {{.name = "a,b:c", .is_regression = true, .reason = "rate changed by -3.0 %"},
               {.name = "fine"}},
      .differences = {"gpu_name: A against B"},
      .has_regression = true};
  EXPECT_EQ(github_annotations(comparison),
            "::warning title=Steplens%3A not the same experiment::gpu_name: A against B\n"
            "::error title=Steplens regression%3A a%2Cb%3Ac::rate changed by -3.0 %25\n");
  EXPECT_EQ(github_annotations({}), "::notice title=Steplens::No regression is proven.\n");
}

}  // namespace
}  // namespace steplens
