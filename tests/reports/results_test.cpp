#include "reports/results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "reports/matrix_table.h"

namespace steplens {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kStepNs = 1'000'000;

// Rounds in which `arm` is `ratio` times as fast as the baseline, with a little noise that does not
// cancel in the pairs.
void add_rounds(BundleBuilder& builder, const std::string& arm, double ratio, int num_rounds) {
  for (int r = 0; r < num_rounds; ++r) {
    const auto step_ns = static_cast<double>(kStepNs + 300 * ((r * 5) % 7));
    builder.add_round({{"baseline", static_cast<std::int64_t>(step_ns)},
                       {arm, std::llround(step_ns / ratio) + 200 * (r % 3)}});
  }
}

const ArmResult& row(const Results& results, std::string_view name) {
  const ArmResult* found = find_arm(results, name);
  if (found == nullptr) throw std::out_of_range(std::string(name));
  return *found;
}

// Expected values of the eight rounds: SciPy 1.17 (t intervals) and a walk over all 256 sign
// patterns in NumPy (p values, max-T).
TEST(ComputeResults, GivesEffectIntervalAndPValuesOfEightRounds) {
  const Results results = compute_results(eight_rounds().bundle());
  const ArmResult& fast = row(results, "optimizer=fused");
  EXPECT_NEAR(*fast.effect_ratio, 1.03084465457, 1e-11);
  EXPECT_NEAR(*fast.effect_low_ratio, 1.030249027159, 1e-11);
  EXPECT_NEAR(*fast.effect_high_ratio, 1.031440626337, 1e-11);
  EXPECT_DOUBLE_EQ(*fast.p_value, 2.0 / 256);
  EXPECT_DOUBLE_EQ(*fast.p_adjusted, 2.0 / 256);
  EXPECT_EQ(fast.verdict, Verdict::kFaster);
  EXPECT_FALSE(fast.is_within_one_percent);
  EXPECT_NEAR(*fast.min_detectable_ratio, 1.0009138988161033, 1e-11);
  EXPECT_EQ(fast.num_rounds, 8);

  const ArmResult& same = row(results, "checkpoint=full");
  EXPECT_NEAR(*same.effect_ratio, 0.999875940458, 1e-11);
  EXPECT_NEAR(*same.effect_low_ratio, 0.998744455791, 1e-11);
  EXPECT_NEAR(*same.effect_high_ratio, 1.001008706991, 1e-11);
  EXPECT_DOUBLE_EQ(*same.p_value, 212.0 / 256);
  EXPECT_DOUBLE_EQ(*same.p_adjusted, 212.0 / 256);
  EXPECT_EQ(same.verdict, Verdict::kEquivalent);

  EXPECT_EQ(results.num_comparisons, 2);
  EXPECT_EQ(results.num_rounds_complete, 8);
}

TEST(ComputeResults, GivesRatesWhoseRatioIsTheEffect) {
  const Results results = compute_results(eight_rounds().bundle());
  const ArmResult& baseline = row(results, "baseline");
  const ArmResult& fast = row(results, "optimizer=fused");
  EXPECT_NEAR(*baseline.valid_tokens_per_s, 999065.1365970181, 1e-5);
  EXPECT_NEAR(*fast.valid_tokens_per_s / *baseline.valid_tokens_per_s, *fast.effect_ratio, 1e-12);
  EXPECT_NEAR(*fast.valid_tokens_per_s * *fast.step_wall_ns / 1000e9, 1, 1e-12);
  EXPECT_NEAR(*baseline.block_sd_ratio, 0.0025081734550176185, 1e-13);
  EXPECT_FALSE(baseline.step_gpu_ns);
  EXPECT_FALSE(baseline.verdict);
  EXPECT_FALSE(baseline.effect_ratio);
}

TEST(ComputeResults, UsesTheStricterRuleWhereTheRunCouldStopOnPrecision) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().until_halfwidth_ratio = 0.002;
  const Results results = compute_results(builder.bundle());
  EXPECT_DOUBLE_EQ(results.rule.alpha, 0.04);
  EXPECT_DOUBLE_EQ(results.rule.confidence, 0.96);
  EXPECT_NEAR(*row(results, "optimizer=fused").effect_low_ratio, 1.030210719236, 1e-11);
  EXPECT_NEAR(*row(results, "optimizer=fused").effect_high_ratio, 1.031478979993, 1e-11);
}

TEST(ComputeResults, HasEqualPValuesForASingleComparison) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_rounds({{"baseline", EightRounds{}.base}, {"optimizer=fused", EightRounds{}.same}});
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "optimizer=fused");
  EXPECT_DOUBLE_EQ(*arm.p_value, *arm.p_adjusted);
}

TEST(ComputeResults, WarnsOfALargeDifferenceThatNoClaimProves) {
  const auto warnings_at = [](double ratio) {
    BundleBuilder builder;
    builder.add_arm("attention", "math").proof_claims = {{"math", Claim::kPresent}};
    builder.add_pilot("attention=math", {{"other", 1}});
    add_rounds(builder, "attention=math", ratio, 10);
    const Results results = compute_results(builder.bundle());
    EXPECT_EQ(row(results, "attention=math").verdict, Verdict::kNoEffect);
    return results.warnings;
  };
  EXPECT_THAT(
      warnings_at(0.5),
      Contains(HasSubstr("attention=math: no effect is proven, yet its rate differs: -50")));
  EXPECT_THAT(warnings_at(1.5), Contains(HasSubstr("no effect is proven")));
  EXPECT_THAT(warnings_at(1.0), Not(Contains(HasSubstr("no effect is proven"))));
}

// Median 1000, a sixth step of 1100: by the last step the mean is 1012.5 or 937.5.
TEST(ComputeResults, SaysOfASwingWhetherTheMeanStepIsLongerOrShorter) {
  const auto warnings_with = [](std::int64_t last_ns) {
    BundleBuilder builder;
    builder.add_arm("optimizer", "fused");
    add_rounds(builder, "optimizer=fused", 1.0, 6);
    builder.edit_blocks("optimizer=fused", [&](BlockRecord& block) {
      StepArrays& steps = block.steps;
      steps.step_wall_ns = {1000, 1000, 1000, 1000, 1000, 1100, 1000, last_ns};
      for (auto* counts : {&steps.num_positions, &steps.num_valid_tokens, &steps.num_loss_tokens,
                           &steps.data_wait_ns}) {
        counts->assign(8, 1000);
      }
      for (auto* values : {&steps.loss, &steps.grad_norm, &steps.lr}) values->assign(8, 1.0);
    });
    return compute_results(builder.bundle()).warnings;
  };
  EXPECT_THAT(warnings_with(1000), Contains(HasSubstr("(step 6: +10.0 %; mean step: +1.25 %)")));
  EXPECT_THAT(warnings_with(400), Contains(HasSubstr("(step 6: +10.0 %; mean step: -6.25 %)")));
}

TEST(ComputeResults, SaysWhichProvenEffectsAreSmall) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  add_rounds(builder, "optimizer=fused", 1.004, 10);
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "optimizer=fused");
  EXPECT_EQ(arm.verdict, Verdict::kFaster);
  EXPECT_TRUE(arm.is_within_one_percent);
}

TEST(ComputeResults, UsesOnlyCompleteRoundsAndBlocksInUse) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  add_rounds(builder, "optimizer=fused", 1.03, 9);
  const double effect = *row(compute_results(builder.bundle()), "optimizer=fused").effect_ratio;
  // A dropped round, an unfinished one, and a block that was run again, all far off.
  builder.add_round({{"baseline", kStepNs}, {"optimizer=fused", 9 * kStepNs}});
  builder.manifest().rounds.back().dropped_reason = "the machine was started anew";
  builder.add_round({{"baseline", kStepNs}, {"optimizer=fused", 9 * kStepNs}});
  builder.manifest().rounds.back().is_complete = false;
  builder.add_block("optimizer=fused", BlockKind::kThroughput, 0, 9 * kStepNs);
  builder.manifest().blocks.back().is_superseded = true;
  const Results results = compute_results(builder.bundle());
  EXPECT_DOUBLE_EQ(*row(results, "optimizer=fused").effect_ratio, effect);
  EXPECT_EQ(results.num_rounds_complete, 9);
  EXPECT_EQ(results.num_rounds_dropped, 1);
  EXPECT_THAT(results.warnings, Contains(HasSubstr("Round 9 was dropped: the machine was")));
}

TEST(ComputeResults, GivesOnlyTheEstimateBelowSixRounds) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  add_rounds(builder, "optimizer=fused", 1.03, 5);
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "optimizer=fused");
  EXPECT_EQ(arm.verdict, Verdict::kNotEnoughRounds);
  EXPECT_EQ(arm.reason, "5 rounds of at least 6");
  EXPECT_NEAR(*arm.effect_ratio, 1.03, 0.002);
  EXPECT_TRUE(arm.effect_low_ratio);
  EXPECT_FALSE(arm.p_value);
  EXPECT_FALSE(arm.p_adjusted);
}

TEST(ComputeResults, HasNoIntervalAfterOneRound) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_round({{"baseline", 1'030'000}, {"optimizer=fused", kStepNs}});
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "optimizer=fused");
  EXPECT_DOUBLE_EQ(*arm.effect_ratio, 1.03);
  EXPECT_FALSE(arm.effect_low_ratio);
  EXPECT_FALSE(arm.effect_high_ratio);
}

TEST(ComputeResults, SaysSoWhenNoRoundIsComplete) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_round({{"baseline", kStepNs}});
  builder.manifest().rounds.back().is_complete = false;
  builder.manifest().stop_reason = "";
  const Results results = compute_results(builder.bundle());
  EXPECT_EQ(results.num_rounds_complete, 0);
  EXPECT_FALSE(row(results, "baseline").valid_tokens_per_s);
  EXPECT_EQ(row(results, "optimizer=fused").verdict, Verdict::kNotEnoughRounds);
  EXPECT_EQ(row(results, "optimizer=fused").reason, "no round is complete");
  EXPECT_THAT(results.warnings, Contains("The matrix is unfinished: 0 of 12 rounds are complete."));
}

TEST(ComputeResults, TakesAFailedArmOutOfTheFamilyWithItsReason) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("attention", "math");
  builder.add_round({{"baseline", kStepNs}, {"optimizer=fused", 970'000}});
  builder.add_failure("attention=math", 0, BlockStatus::kOom, "CUDA out of memory");
  builder.manifest().failed_arms["attention=math"] = "oom twice: CUDA out of memory";
  add_rounds(builder, "optimizer=fused", 1.03, 7);
  const Results results = compute_results(builder.bundle());
  EXPECT_EQ(row(results, "attention=math").verdict, Verdict::kFailed);
  EXPECT_EQ(row(results, "attention=math").reason, "oom twice: CUDA out of memory");
  EXPECT_EQ(row(results, "attention=math").num_failed_blocks, 1);
  EXPECT_EQ(results.num_comparisons, 1);
  EXPECT_EQ(row(results, "optimizer=fused").verdict, Verdict::kFaster);
  ASSERT_EQ(results.failures.size(), 1U);
  EXPECT_EQ(results.failures[0].status, "oom");
}

TEST(ComputeResults, GivesASwitchWithoutEffectNoVerdictOnSpeed) {
  BundleBuilder builder;
  builder.add_arm("attention", "math").proof_claims = {{"math", Claim::kPresent}};
  builder.add_pilot("attention=math", {{"flash", 1}});
  add_rounds(builder, "attention=math", 1.03, 8);
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "attention=math");
  EXPECT_EQ(arm.verdict, Verdict::kNoEffect);
  EXPECT_EQ(arm.proof, Proof::kNoEffect);
  EXPECT_THAT(arm.reason, HasSubstr("math present: 0 a step"));
  EXPECT_FALSE(arm.p_value);
  EXPECT_EQ(results.num_comparisons, 0);
}

TEST(ComputeResults, NeverCallsAnArmWithOtherMathsFaster) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  add_rounds(builder, "optimizer=fused", 1.03, 8);
  for (double& loss : builder.block("optimizer=fused", 4).steps.loss) loss *= 1.01;
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "optimizer=fused");
  EXPECT_EQ(arm.verdict, Verdict::kMathsDiffers);
  EXPECT_NEAR(*arm.effect_ratio, 1.03, 0.002);
  EXPECT_TRUE(arm.p_adjusted);
  EXPECT_THAT(arm.reason, StartsWith("optimizer=fused, round 4: loss leaves that of baseline"));
  EXPECT_THAT(arm.guard_failures, ElementsAre(arm.reason));
}

TEST(ComputeResults, FailsAnArmThatDidOtherWork) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  add_rounds(builder, "optimizer=fused", 1.03, 8);
  builder.block("optimizer=fused", 2).data_hash = "other";
  const Results results = compute_results(builder.bundle());
  EXPECT_EQ(row(results, "optimizer=fused").verdict, Verdict::kFailed);
  EXPECT_THAT(row(results, "optimizer=fused").reason, StartsWith("unequal work: "));
  EXPECT_FALSE(row(results, "optimizer=fused").effect_ratio);
}

TEST(ComputeResults, ListsWhatIsNotApplicableWithoutAVerdict) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("graph", "on").not_applicable_reason = "CUDA graphs need a CUDA device";
  add_rounds(builder, "optimizer=fused", 1.03, 8);
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "graph=on");
  EXPECT_FALSE(arm.is_applicable);
  EXPECT_FALSE(arm.verdict);
  EXPECT_EQ(arm.reason, "CUDA graphs need a CUDA device");
}

TEST(ComputeResults, ComparesAGridCellWithItsNeighbour) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("checkpoint", "full");
  Arm& cell = builder.add_arm("optimizer", "fused");
  cell.name = "optimizer=fused+checkpoint=full";
  cell.reference = "checkpoint=full";
  cell.config.checkpoint = Checkpoint::kFull;
  for (int r = 0; r < 8; ++r) {
    const std::int64_t noise = 100 * (r % 3);
    builder.add_round({{"baseline", 1'000'000},
                       {"optimizer=fused", 900'000 + noise},
                       {"checkpoint=full", 1'300'000},
                       {"optimizer=fused+checkpoint=full", 1'200'000 + noise}});
  }
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "optimizer=fused+checkpoint=full");
  EXPECT_NEAR(*arm.effect_ratio, 13.0 / 12.0, 2e-4);
  EXPECT_TRUE(arm.is_single_variable);
}

TEST(ComputeResults, AdjustsPValuesOverTheRoundsThatAllComparisonsShare) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("checkpoint", "full");
  const EightRounds steps;
  for (std::size_t r = 0; r < 8; ++r) {
    std::map<std::string, std::int64_t> round = {{"baseline", steps.base[r]},
                                                 {"optimizer=fused", steps.fast[r]}};
    // One block of this arm ended badly: its pair is missing, the round stays valid.
    if (r != 3) round["checkpoint=full"] = steps.same[r];
    builder.add_round(round);
  }
  const Results results = compute_results(builder.bundle());
  EXPECT_EQ(row(results, "checkpoint=full").num_rounds, 7);
  EXPECT_EQ(row(results, "optimizer=fused").num_rounds, 8);
  EXPECT_DOUBLE_EQ(*row(results, "optimizer=fused").p_value, 2.0 / 256);
  // Seven common rounds: 2 of 128 patterns reach what was observed.
  EXPECT_DOUBLE_EQ(*row(results, "optimizer=fused").p_adjusted, 2.0 / 128);
  EXPECT_THAT(results.warnings, Contains("Adjusted p values use the 7 rounds that all comparisons "
                                         "share; estimates use up to 8."));
}

TEST(ComputeResults, FallsBackOnBonferroniWhereTooFewRoundsAreShared) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("checkpoint", "full");
  for (int r = 0; r < 14; ++r) {
    const std::int64_t noise = 100 * (r % 3);
    builder.add_round(
        {{"baseline", kStepNs}, {r < 7 ? "optimizer=fused" : "checkpoint=full", 950'000 + noise}});
  }
  const Results results = compute_results(builder.bundle());
  EXPECT_DOUBLE_EQ(*row(results, "optimizer=fused").p_value, 2.0 / 128);
  EXPECT_DOUBLE_EQ(*row(results, "optimizer=fused").p_adjusted, 4.0 / 128);
  EXPECT_THAT(results.warnings, Contains(StartsWith("Only 0 rounds are shared")));
}

TEST(ComputeResults, PoolsStepsForPercentilesAndCountsTheirOutliers) {
  BundleBuilder builder;
  for (int r = 0; r < 2; ++r) builder.add_round({{"baseline", kStepNs}});
  builder.block("baseline", 0).steps.step_wall_ns = {100, 100, 100, 100};
  builder.block("baseline", 1).steps.step_wall_ns = {100, 100, 100, 1000};
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "baseline");
  EXPECT_DOUBLE_EQ(*arm.pooled_step_p50_ns, 100);
  // Type 7: rank 0.9 * 7 = 6.3, three tenths of the way from 100 to 1000.
  EXPECT_NEAR(*arm.pooled_step_p90_ns, 370, 1e-9);
  EXPECT_NEAR(*arm.pooled_step_p99_ns, 937, 1e-9);
  // The second block: quartiles 100 and 325, so 1000 lies between 325 + 1.5 and 325 + 3 times 225.
  EXPECT_EQ(arm.step_outliers.num_mild, 1);
  EXPECT_EQ(arm.step_outliers.num_severe, 0);
}

// Every block of 14 steps was called unsettled: the detector needs 20 to tell.
TEST(ComputeResults, CallsABlockUnsettledOnlyIfItIsLongEnoughToTell) {
  BundleBuilder builder;
  for (int r = 0; r < 2; ++r) builder.add_round({{"baseline", kStepNs}});
  for (int r = 0; r < 2; ++r) builder.block("baseline", r).evidence["warmup_disagrees"] = true;
  EXPECT_THAT(compute_results(builder.bundle()).warnings, Not(Contains(HasSubstr("settled"))));
  StepArrays& warmup = builder.block("baseline", 1).warmup;
  warmup.step_wall_ns.resize(16, kStepNs);  // And 4 measured.
  warmup.num_positions.resize(16, 1000);
  warmup.num_valid_tokens.resize(16, 1000);
  warmup.num_loss_tokens.resize(16, 1000);
  warmup.data_wait_ns.resize(16, 0);
  EXPECT_THAT(compute_results(builder.bundle()).warnings,
              Contains("In 1 of 1 blocks the step time had not settled by the end of the "
                       "warm-up."));
}

TEST(ComputeResults, TakesMediansOfMemoryAndSharesOfSums) {
  BundleBuilder builder;
  for (int r = 0; r < 3; ++r) builder.add_round({{"baseline", kStepNs}});
  for (int r = 0; r < 3; ++r) {
    BlockRecord& block = builder.block("baseline", r);
    block.memory = {{"peak_allocated_bytes", 1000 * (r + 1)},
                    {"peak_reserved_bytes", 5000},
                    {"unaccounted_bytes", nullptr},
                    {"num_alloc_retries", 0}};
    block.samples = {{"energy_j", 2.0},
                     {"mean_sm_clock_mhz", 1900 + 10 * r},
                     {"max_temperature_celsius", 60 + r},
                     {"cpu_time_ns", 6'000'000},
                     {"duration_ns", 4'000'000},
                     {"max_memory_used_bytes", 7000},
                     {"throttle_shares", {{"sw_power_cap", 0.25 * r}}}};
  }
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "baseline");
  EXPECT_EQ(arm.peak_allocated_bytes, 2000);
  EXPECT_EQ(arm.driver_used_bytes, 7000);
  EXPECT_FALSE(arm.unaccounted_bytes);
  EXPECT_DOUBLE_EQ(*arm.energy_per_token_j, 6.0 / 12'000);
  EXPECT_DOUBLE_EQ(*arm.mean_sm_clock_mhz, 1910);
  EXPECT_DOUBLE_EQ(*arm.max_temperature_celsius, 62);
  EXPECT_DOUBLE_EQ(*arm.cpu_time_ratio, 1.5);
  EXPECT_DOUBLE_EQ(arm.throttle_shares.at("sw_power_cap"), 0.25);
  EXPECT_DOUBLE_EQ(*arm.data_wait_ratio, 0.01);
}

// Sampling begins a step early: 5 steps' energy for 4 measured ones.
TEST(ComputeResults, TakesOfTheEnergyWhatTheMeasuredStepsUsed) {
  BundleBuilder builder;
  for (int r = 0; r < 3; ++r) builder.add_round({{"baseline", kStepNs}});
  builder.edit_blocks("baseline", [](BlockRecord& block) {
    block.samples = {{"energy_j", 10.0}, {"duration_ns", 5 * kStepNs}};
  });
  EXPECT_DOUBLE_EQ(*row(compute_results(builder.bundle()), "baseline").energy_per_token_j,
                   8.0 / 4000);
}

TEST(ComputeResults, DividesTheEnergyOfRanksByTheTokensOfTheirGpus) {
  BundleBuilder builder;
  for (int r = 0; r < 3; ++r) builder.add_round({{"baseline", kStepNs}});
  builder.edit_blocks("baseline", [](BlockRecord& block) {
    block.world_size = 2;
    block.samples = {{"energy_j", 6.0}};  // Rank 0's.
    block.evidence["ranks"] = {{{"rank", 0}, {"num_valid_tokens", 1500}, {"energy_j", 6.0}},
                               {{"rank", 1}, {"num_valid_tokens", 2500}, {"energy_j", 10.0}}};
  });
  EXPECT_DOUBLE_EQ(*row(compute_results(builder.bundle()), "baseline").energy_per_token_j,
                   16.0 / 4000);

  // As bundles have it that know of rank 0's GPU alone.
  builder.edit_blocks("baseline", [](BlockRecord& block) {
    for (nlohmann::json& row : block.evidence["ranks"]) row.erase("energy_j");
  });
  EXPECT_DOUBLE_EQ(*row(compute_results(builder.bundle()), "baseline").energy_per_token_j,
                   6.0 / 1500);

  builder.edit_blocks("baseline", [](BlockRecord& block) { block.samples.clear(); });
  EXPECT_FALSE(row(compute_results(builder.bundle()), "baseline").energy_per_token_j);
}

TEST(ComputeResults, CallsAnEffectClockMediatedAndGivesItPerCycle) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  add_rounds(builder, "optimizer=fused", 1.04, 8);
  builder.edit_blocks("baseline",
                      [](BlockRecord& block) { block.samples["mean_sm_clock_mhz"] = 1800; });
  builder.edit_blocks("optimizer=fused",
                      [](BlockRecord& block) { block.samples["mean_sm_clock_mhz"] = 1836; });
  const Results results = compute_results(builder.bundle());
  const ArmResult& arm = row(results, "optimizer=fused");
  EXPECT_THAT(arm.labels, Contains("clock-mediated"));
  EXPECT_NEAR(*arm.effect_per_cycle_ratio, *arm.effect_ratio / 1.02, 1e-12);

  builder.edit_blocks("optimizer=fused",
                      [](BlockRecord& block) { block.samples["mean_sm_clock_mhz"] = 1817; });
  const Results closer = compute_results(builder.bundle());
  EXPECT_THAT(row(closer, "optimizer=fused").labels, Not(Contains("clock-mediated")));
}

TEST(ComputeResults, FlagsUnequalNoise) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  for (int r = 0; r < 8; ++r) {
    const std::int64_t sign = r % 2 == 0 ? 1 : -1;
    builder.add_round(
        {{"baseline", kStepNs + sign * 1000}, {"optimizer=fused", kStepNs + sign * 1600}});
  }
  const Results results = compute_results(builder.bundle());
  EXPECT_TRUE(row(results, "optimizer=fused").has_unequal_noise);
  EXPECT_THAT(row(results, "optimizer=fused").labels, Contains("unequal noise"));
}

TEST(ComputeResults, SeesDriftFromRoundToRound) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  for (int r = 0; r < 8; ++r) {
    // 1 % a round, and pairs that agree within 0.1 %.
    const std::int64_t step_ns = kStepNs + 10'000 * r;
    builder.add_round(
        {{"baseline", step_ns}, {"optimizer=fused", step_ns + (r % 2 == 0 ? 1000 : -1000)}});
  }
  const Results results = compute_results(builder.bundle());
  EXPECT_EQ(results.has_drift, true);
  EXPECT_THAT(results.warnings, Contains(StartsWith("Drift:")));
  EXPECT_EQ(compute_results(eight_rounds().bundle()).has_drift.value_or(false), true)
      << "the eight rounds move together by 0.3 %, ten times their pairs' noise";
}

TEST(ComputeResults, SumsMeasuredTimeAndBlockTime) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_round({{"baseline", 1'000'000'000}, {"optimizer=fused", 500'000'000}});
  const Results results = compute_results(builder.bundle());
  // 4 steps of 1 s and 4 of 0.5 s in two blocks of 8 s, begun 10 s apart.
  EXPECT_DOUBLE_EQ(results.measured_ns, 6e9);
  EXPECT_DOUBLE_EQ(*results.measured_share_ratio, 6.0 / 16);
  EXPECT_DOUBLE_EQ(results.wall_ns, 18e9);
}

TEST(ComputeResults, WarnsWhereClocksDisagree) {
  BundleBuilder builder;
  builder.add_round({{"baseline", kStepNs}});
  builder.block("baseline", 0).measured_wall_ns = 4 * kStepNs * 101 / 100;
  EXPECT_THAT(compute_results(builder.bundle()).warnings,
              Contains(HasSubstr("The clocks of 1 blocks disagree, and their rates are wrong by as "
                                 "much; the first is baseline, round 0")));
  builder.block("baseline", 0).measured_wall_ns = 4 * kStepNs * 1004 / 1000;
  EXPECT_THAT(compute_results(builder.bundle()).warnings, Not(Contains(HasSubstr("clocks"))));
}

TEST(ComputeResults, GivesMfuWithItsDenominatorOrAReason) {
  BundleBuilder builder;
  builder.add_arm("precision", "fp32");
  builder.manifest().gpu_name = "NVIDIA H200";
  builder.manifest().baseline.precision = Precision::kBf16;
  builder.manifest().arms[0].config.precision = Precision::kBf16;
  builder.add_round({{"baseline", kStepNs}, {"precision=fp32", 2 * kStepNs}});
  const Results results = compute_results(builder.bundle());
  const ArmResult& baseline = row(results, "baseline");
  // 2 layers x (4 x 64 x 64 + 3 x 64 x 128) + 64 x 256.
  EXPECT_EQ(baseline.num_matmul_parameters, 98'304);
  EXPECT_DOUBLE_EQ(*baseline.peak_flops_per_s, 989.4e12);
  // 1e6 positions/s x (6 x 98304 + 6 x 2 x 64 x 128) FLOP.
  EXPECT_NEAR(*baseline.mfu_causal_ratio, 1e6 * 688'128 / 989.4e12, 1e-15);
  EXPECT_FALSE(row(results, "precision=fp32").mfu_causal_ratio);
  EXPECT_EQ(row(results, "precision=fp32").mfu_reason, "the bf16 peak does not apply to fp32");

  // The same rate of two ranks, which have a GPU each.
  builder.manifest().arms[0].config.world_size = 2;
  EXPECT_NEAR(*row(compute_results(builder.bundle()), "baseline").mfu_causal_ratio,
              0.5 * 1e6 * 688'128 / 989.4e12, 1e-15);

  builder.manifest().gpu_name = "";
  EXPECT_EQ(row(compute_results(builder.bundle()), "baseline").mfu_reason,
            "no GPU, so no peak to compare with");
}

TEST(ComputeResults, GivesForwardPassesARowWithoutAnEffect) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().gpu_name = "NVIDIA H200";
  for (Arm& arm : builder.manifest().arms) arm.config.precision = Precision::kBf16;
  builder.manifest().arms[1].contract = Contract::kForwardOnly;
  const Results results = compute_results(builder.bundle());
  const ArmResult& forward = row(results, "optimizer=fused");
  EXPECT_FALSE(forward.verdict);
  EXPECT_FALSE(forward.effect_ratio);
  EXPECT_FALSE(forward.p_adjusted);
  EXPECT_FALSE(forward.grad_norm_tolerance_ratio);
  EXPECT_THAT(forward.labels, Contains("forward only"));
  EXPECT_EQ(verdict_text(forward, results.rule), "forward only");
  EXPECT_EQ(forward.mfu_reason, "a forward pass alone does not do a training step's operations");
  // Its own time is stated, and it is no part of the family that p values are adjusted for.
  EXPECT_TRUE(forward.step_wall_ns);
  EXPECT_EQ(results.num_comparisons, 1);
}

TEST(ComputeResults, JudgesALowerPrecisionAndSaysThatItIsOne) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().gpu_name = "NVIDIA H200";
  for (Arm& arm : builder.manifest().arms) arm.config.precision = Precision::kBf16;
  builder.manifest().arms[1].contract = Contract::kLowerPrecision;
  builder.edit_blocks("optimizer=fused", [](BlockRecord& block) {
    for (double& loss : block.steps.loss) loss *= 1.01;
  });
  const Results results = compute_results(builder.bundle());
  const ArmResult& lower = row(results, "optimizer=fused");
  EXPECT_EQ(lower.verdict, Verdict::kFaster);
  EXPECT_THAT(lower.labels, Contains("lower precision"));
  EXPECT_FALSE(lower.loss_tolerance_ratio);
  EXPECT_GT(lower.loss_deviation_ratio.value(), 0);
  EXPECT_EQ(lower.mfu_reason, "the bf16 peak does not apply to a lower precision");
}

TEST(ComputeResults, RefusesAnMfuAboveOne) {
  BundleBuilder builder;
  builder.manifest().gpu_name = "NVIDIA H200";
  builder.manifest().arms[0].config.precision = Precision::kBf16;
  builder.add_round({{"baseline", kStepNs}});
  builder.block("baseline", 0).steps.step_wall_ns = {1, 1, 0, 0};
  const Results results = compute_results(builder.bundle());
  EXPECT_FALSE(row(results, "baseline").mfu_causal_ratio);
  EXPECT_THAT(row(results, "baseline").mfu_reason, Not(IsEmpty()));
}

TEST(ComputeResults, LeavesOutBlocksThatClaimToBeOkAndMeasuredNothing) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_round({{"baseline", kStepNs}, {"optimizer=fused", kStepNs}});
  builder.block("optimizer=fused", 0).steps = {};
  const Results results = compute_results(builder.bundle());
  ASSERT_EQ(results.failures.size(), 1U);
  EXPECT_EQ(results.failures[0].status, "unusable");
  EXPECT_EQ(results.failures[0].reason, "it has no measured step");
  EXPECT_EQ(row(results, "optimizer=fused").num_rounds, 0);
}

BundleBuilder aa_bundle(int num_aa, int num_different) {
  BundleBuilder builder;
  Manifest& manifest = builder.manifest();
  manifest.num_aa = num_aa;
  manifest.arms.clear();
  for (int i = 0; i <= num_aa; ++i) {
    manifest.arms.push_back({.name = fmt::format("aa-{:02}", i),
                             .is_baseline = true,
                             .reference = i == 0 ? "" : fmt::format("aa-{:02}", i - 1),
                             .config = manifest.baseline});
  }
  for (int r = 0; r < 8; ++r) {
    std::map<std::string, std::int64_t> round;
    for (int i = 0; i <= num_aa; ++i) {
      // Arms 1 .. num_different are each 1 % faster than the one before, in every round; the others
      // equal their neighbour up to a noise that changes its sign.
      const double level = std::pow(0.99, std::min(i, num_different));
      const int noise = (r * 3 + i * 5) % 7 - 3;
      round[fmt::format("aa-{:02}", i)] =
          std::llround(1e6 * level) + (r % 2 == 0 ? noise : -noise) * 50;
    }
    builder.add_round(round);
  }
  return builder;
}

TEST(AaSummary, CountsRawPValuesAgainstTheAllowedNumber) {
  const Results passed = compute_results(aa_bundle(20, 3).bundle());
  EXPECT_EQ(passed.aa->num_comparisons, 20);
  EXPECT_EQ(passed.aa->num_rejected, 3);
  EXPECT_EQ(passed.aa->num_allowed, 3);
  EXPECT_TRUE(passed.aa->is_accepted);

  const Results failed = compute_results(aa_bundle(20, 4).bundle());
  EXPECT_EQ(failed.aa->num_rejected, 4);
  EXPECT_FALSE(failed.aa->is_accepted);
}

TEST(AaSummary, GivesTheMedianHalfWidth) {
  const Results results = compute_results(aa_bundle(3, 0).bundle());
  std::vector<double> half_widths;
  for (const ArmResult& arm : results.arms) {
    if (!arm.effect_ratio) continue;
    half_widths.push_back((std::log(*arm.effect_high_ratio) - std::log(*arm.effect_low_ratio)) / 2);
  }
  std::ranges::sort(half_widths);
  ASSERT_EQ(half_widths.size(), 3U);
  EXPECT_NEAR(*results.aa->median_half_width_ratio, half_widths[1], 1e-15);
}

TEST(AaSummary, IsAbsentFromAMatrix) { EXPECT_FALSE(compute_results(eight_rounds().bundle()).aa); }

TEST(ResultsJson, HasTheFieldsThatStay) {
  const nlohmann::json json = to_json(compute_results(eight_rounds().bundle()));
  EXPECT_EQ(json["schema_version"], 1);
  const nlohmann::json& arm = json["arms"][1];
  EXPECT_EQ(arm["name"], "optimizer=fused");
  EXPECT_EQ(arm["toggle"], "optimizer");
  EXPECT_EQ(arm["level"], "fused");
  EXPECT_EQ(arm["reference"], "baseline");
  EXPECT_EQ(arm["is_single_variable"], true);
  EXPECT_EQ(arm["contract"], "same_maths");
  EXPECT_EQ(arm["verdict"], "FASTER");
  EXPECT_EQ(arm["proof"], "not_checked");
  EXPECT_EQ(arm["num_rounds"], 8);
  for (const char* key : {"effect_ratio", "effect_low_ratio", "effect_high_ratio", "p_value",
                          "p_adjusted", "positions_per_s", "valid_tokens_per_s", "step_wall_ns"}) {
    EXPECT_TRUE(arm[key].is_number()) << key;
  }
  EXPECT_TRUE(arm["mfu_causal_ratio"].is_null());
  EXPECT_TRUE(arm["peak_allocated_bytes"].is_null());
  EXPECT_EQ(json["arms"][0]["is_baseline"], true);
  EXPECT_TRUE(json["arms"][0]["verdict"].is_null());
}

TEST(ResultsJson, ReadsBackWhatItWrote) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().arms[1].proof_claims = {{"fused", Claim::kPresent}};
  builder.add_pilot("optimizer=fused", {{"fused", 1}});
  builder.add_failure("checkpoint=full", 99, BlockStatus::kCrash, "SIGSEGV");
  const nlohmann::json json = to_json(compute_results(builder.bundle()));
  EXPECT_EQ(to_json(results_from_json(json, "results.json")), json);
  const nlohmann::json aa = to_json(compute_results(aa_bundle(2, 0).bundle()));
  EXPECT_EQ(to_json(results_from_json(aa, "results.json")), aa);
}

TEST(ResultsJson, OpensAFileThatLacksNewerFields) {
  const Results results = results_from_json(
      {{"schema_version", 1}, {"arms", {{{"name", "baseline"}, {"is_baseline", true}}}}}, "old");
  ASSERT_EQ(results.arms.size(), 1U);
  EXPECT_EQ(results.arms[0].name, "baseline");
  EXPECT_FALSE(results.arms[0].peak_allocated_bytes);
}

TEST(ResultsJson, NamesTheFieldThatIsWrong) {
  const auto message_of = [](const nlohmann::json& json) {
    try {
      results_from_json(json, "results.json");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message_of({{"schema_version", 1}, {"arms", {{{"num_rounds", "eight"}}}}}),
            "results.json: field arms.num_rounds: wrong type: \"eight\"");
  EXPECT_EQ(message_of({{"schema_version", 1}, {"arms", {{{"verdict", "FASTEST"}}}}}),
            "results.json: field arms.verdict.unknown verdict FASTEST");
  EXPECT_THAT(message_of({{"schema_version", 2}}), HasSubstr("a newer Steplens wrote it"));
}

}  // namespace
}  // namespace steplens
