#include "reports/guards.h"

#include <cmath>
#include <limits>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/metrics.h"

namespace steplens {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kStepNs = 1'000'000;

// One round of baseline and one arm that differs in `key`.
BundleBuilder one_round(const std::string& key = "optimizer", const std::string& level = "fused") {
  BundleBuilder builder;
  builder.add_arm(key, level);
  builder.add_round({{"baseline", kStepNs}, {key + "=" + level, kStepNs}});
  return builder;
}

struct Checked {
  VariableCheck variables;
  WorkCheck work;
  MathsCheck maths;
};

Checked check(const BundleBuilder& builder, std::size_t arm_index = 1) {
  const Bundle bundle = builder.bundle();
  const Arm& arm = bundle.manifest.arms[arm_index];
  const std::vector<BlockPair> pairs = block_pairs(bundle, arm);
  return {.variables = check_variables(bundle, arm, pairs),
          .work = check_work(arm, pairs),
          .maths = check_maths(arm, *find_arm(bundle.manifest, arm.reference), pairs)};
}

// Makes every value of the trajectory's 6 steps deviate by `ratio`, warm-up included.
void deviate(BlockRecord& block, std::vector<double> StepArrays::* member, double ratio) {
  for (double& value : block.warmup.*member) value *= 1 + ratio;
  for (double& value : block.steps.*member) value *= 1 + ratio;
}

TEST(CheckVariables, AcceptsExactlyOneDifferingKey) {
  const VariableCheck variables = check(one_round()).variables;
  EXPECT_TRUE(variables.is_single_variable);
  EXPECT_THAT(variables.differing_keys, ElementsAre("optimizer"));
  EXPECT_THAT(variables.failures, IsEmpty());
}

TEST(CheckVariables, NamesASecondKeyOfThePlan) {
  BundleBuilder builder = one_round();
  builder.manifest().arms[1].config.seed = 2;
  builder.edit_blocks("optimizer=fused", [](BlockRecord& block) { block.config.seed = 2; });
  const VariableCheck variables = check(builder).variables;
  EXPECT_FALSE(variables.is_single_variable);
  EXPECT_THAT(variables.differing_keys, ElementsAre("optimizer", "seed"));
  EXPECT_THAT(variables.failures,
              ElementsAre("optimizer=fused: 2 config keys differ from baseline, allowed is 1: "
                          "optimizer, seed"));
}

TEST(CheckVariables, CallsAnArmThatWasAskedForWithSeveralKeysNoFailure) {
  BundleBuilder builder = one_round();
  builder.manifest().arms[1].config.seed = 2;
  builder.manifest().arms[1].is_single_variable = false;
  builder.edit_blocks("optimizer=fused", [](BlockRecord& block) { block.config.seed = 2; });
  const VariableCheck variables = check(builder).variables;
  EXPECT_FALSE(variables.is_single_variable);
  EXPECT_THAT(variables.differing_keys, ElementsAre("optimizer", "seed"));
  EXPECT_THAT(variables.failures, IsEmpty());
  // What ran is compared with the plan all the same.
  builder.edit_blocks("optimizer=fused", [](BlockRecord& block) { block.config.seed = 3; });
  EXPECT_EQ(check(builder).variables.failures.size(), 1u);
}

TEST(CheckVariables, FindsABlockThatRanWithAnotherConfigThanPlanned) {
  BundleBuilder builder = one_round();
  builder.block("optimizer=fused", 0).config.weight_decay = 0.0;
  const VariableCheck variables = check(builder).variables;
  EXPECT_FALSE(variables.is_single_variable);
  EXPECT_THAT(variables.failures, ElementsAre("optimizer=fused, round 0: the block ran with "
                                              "weight_decay=0.0, planned was 0.1"));
}

TEST(CheckVariables, ComparesSettingsOfTheEnvironment) {
  BundleBuilder builder = one_round();
  builder.block("optimizer=fused", 0).environment["torch_version"] = "2.12.0";
  const VariableCheck variables = check(builder).variables;
  EXPECT_FALSE(variables.is_single_variable);
  EXPECT_THAT(variables.differing_keys, ElementsAre("optimizer", "environment.torch_version"));
  EXPECT_THAT(
      variables.failures,
      ElementsAre("optimizer=fused, round 0: environment torch_version is \"2.12.0\" against "
                  "\"2.11.0\" of baseline"));
}

TEST(CheckVariables, IgnoresReadingsAndWhatOnlyOneSideStates) {
  BundleBuilder builder = one_round();
  builder.block("optimizer=fused", 0).environment["gpu"] = {{"temperature_celsius", 61}};
  builder.block("baseline", 0).environment["gpu"] = {{"temperature_celsius", 60}};
  builder.block("baseline", 0).environment["cudnn_version"] = 91900;
  EXPECT_TRUE(check(builder).variables.is_single_variable);
}

TEST(CheckVariables, AllowsTheEnvironmentThatFollowsFromTheSwitch) {
  BundleBuilder builder = one_round("num_threads", "2");
  builder.block("num_threads=2", 0).environment["num_threads"] = 2;
  builder.block("baseline", 0).environment["num_threads"] = 1;
  EXPECT_TRUE(check(builder).variables.is_single_variable);
}

TEST(CheckVariables, CallsAnExternalProgramMultiVariable) {
  BundleBuilder builder;
  Arm& arm = builder.add_arm("optimizer", "fused");
  arm.name = "torch-eager";
  arm.config = builder.manifest().baseline;
  arm.command = {"torch_step.py"};
  builder.add_round({{"baseline", kStepNs}, {"torch-eager", kStepNs}});
  const VariableCheck variables = check(builder).variables;
  EXPECT_FALSE(variables.is_single_variable);
  EXPECT_THAT(variables.differing_keys, ElementsAre("program"));
  EXPECT_THAT(variables.failures, IsEmpty());
}

TEST(CheckVariables, WantsNoDifferenceInAnAa) {
  BundleBuilder builder = one_round();
  builder.manifest().num_aa = 1;
  EXPECT_FALSE(check(builder).variables.is_single_variable);
  builder.manifest().arms[1].config = builder.manifest().baseline;
  builder.block("optimizer=fused", 0).config = builder.manifest().baseline;
  EXPECT_TRUE(check(builder).variables.is_single_variable);
}

TEST(CheckClocks, ComparesTheStepsWithTheBlockAndWithTheGpu) {
  BlockRecord block{.arm = "optimizer=loop", .round_index = 3};
  block.steps.step_wall_ns = {1'000'000, 1'002'000};
  EXPECT_EQ(check_clocks(block), std::nullopt);
  block.measured_wall_ns = 2'002'000 * 1004 / 1000;
  EXPECT_EQ(check_clocks(block), std::nullopt);
  // What an end of the warm-up that is observed late looks like: a first step that is too short.
  block.steps.step_gpu_ns = {1'045'000, 1'002'000};
  EXPECT_EQ(check_clocks(block),
            "optimizer=loop, round 3: the sum of step_wall_ns, 2002000 ns, differs by -2.2 % from "
            "the sum of step_gpu_ns, 2047000 ns; allowed is 0.5 %");
  block.measured_wall_ns = 2'002'000 * 1006 / 1000;
  EXPECT_THAT(*check_clocks(block), HasSubstr("from measured_wall_ns, 2014012 ns"));
}

TEST(CheckWork, AcceptsEqualWork) { EXPECT_THAT(check(one_round()).work.failures, IsEmpty()); }

TEST(CheckWork, NamesArmRoundFieldAndBothValues) {
  BundleBuilder builder = one_round();
  builder.block("optimizer=fused", 0).steps.num_valid_tokens[2] = 999;
  EXPECT_THAT(check(builder).work.failures,
              ElementsAre("optimizer=fused, round 0: num_valid_tokens is 3999 against 4000 of "
                          "baseline"));
}

TEST(CheckWork, ComparesOptimizerStepsDataAndWeights) {
  BundleBuilder builder = one_round();
  BlockRecord& block = builder.block("optimizer=fused", 0);
  block.warmup.step_wall_ns.pop_back();
  block.data_hash = "other-data";
  block.weights_hash = "other-weights";
  EXPECT_THAT(check(builder).work.failures,
              ElementsAre(HasSubstr("warm-up optimizer steps is 1 against 2"),
                          HasSubstr("data_hash is \"other-data\" against \"data\""),
                          HasSubstr("weights_hash is \"other-weights\" against \"weights\"")));
}

TEST(CheckWork, SaysAFaultOfManyRoundsOnce) {
  BundleBuilder builder = one_round();
  builder.add_round({{"baseline", kStepNs}, {"optimizer=fused", kStepNs}});
  builder.add_round({{"baseline", kStepNs}, {"optimizer=fused", kStepNs}});
  builder.edit_blocks("optimizer=fused", [](BlockRecord& block) { block.data_hash = "x"; });
  EXPECT_THAT(check(builder).work.failures,
              ElementsAre(AllOf(HasSubstr("round 0"), HasSubstr("and in 2 more rounds"))));
}

TEST(CheckWork, LeavesTheOrderFreeWhereOnlyTheTokensAreShared) {
  BundleBuilder builder = one_round("batching", "padded");
  builder.manifest().arms[1].contract = Contract::kSameTokens;
  BlockRecord& block = builder.block("batching=padded", 0);
  block.data_hash = "another order";
  block.steps.num_positions[0] = 1500;
  // The same tokens in all, in other steps.
  block.steps.num_valid_tokens = {900, 1100, 1000, 1000};
  EXPECT_THAT(check(builder).work.failures, IsEmpty());
  block.data_set_hash = "other documents";
  EXPECT_THAT(check(builder).work.failures, ElementsAre(HasSubstr("data_set_hash")));
}

TEST(CheckWork, CountsRowsWhereTheMicroBatchIsHeld) {
  BundleBuilder builder;
  builder.manifest().baseline.accumulation_holds = AccumulationHolds::kMicroBatch;
  builder.manifest().arms[0].config = builder.manifest().baseline;
  builder.add_arm("accumulation", "2").contract = Contract::kSameTokens;
  builder.add_round({{"baseline", kStepNs}, {"accumulation=2", 2 * kStepNs}});
  BlockRecord& block = builder.block("accumulation=2", 0);
  for (StepArrays* phase : {&block.warmup, &block.steps}) {
    phase->step_wall_ns.resize(phase->size() / 2);
    phase->num_valid_tokens.assign(phase->size(), 2000);
  }
  EXPECT_THAT(check(builder).work.failures, IsEmpty());
  block.steps.step_wall_ns.push_back(kStepNs);
  EXPECT_THAT(check(builder).work.failures,
              ElementsAre(HasSubstr("measured steps x global batch is 48 against 32")));
}

TEST(CheckWork, TakesAnExternalProgramsMissingHashOnTrustAndSaysSo) {
  BundleBuilder builder = one_round();
  builder.manifest().arms[1].command = {"torch_step.py"};
  builder.block("optimizer=fused", 0).weights_hash = "";
  const WorkCheck work = check(builder).work;
  EXPECT_THAT(work.failures, IsEmpty());
  EXPECT_THAT(work.not_checked, ElementsAre("optimizer=fused: its program states no weights_hash"));
}

TEST(CheckWork, RefusesAMissingHashOfOurOwnProgram) {
  BundleBuilder builder = one_round();
  builder.block("optimizer=fused", 0).weights_hash = "";
  EXPECT_THAT(check(builder).work.failures, ElementsAre(HasSubstr("weights_hash is \"\"")));
}

TEST(MathsTolerance, IsWideOnlyWhereASideComputesInLowPrecision) {
  RunConfig fp32;
  RunConfig bf16;
  bf16.precision = Precision::kBf16;
  RunConfig tf32;
  tf32.precision = Precision::kTf32;
  EXPECT_DOUBLE_EQ(maths_tolerance(fp32, fp32).loss_ratio, 1e-5);
  EXPECT_DOUBLE_EQ(maths_tolerance(fp32, fp32).grad_norm_ratio, 1e-4);
  EXPECT_DOUBLE_EQ(maths_tolerance(fp32, bf16).loss_ratio, 2e-3);
  EXPECT_DOUBLE_EQ(maths_tolerance(tf32, fp32).grad_norm_ratio, 2e-2);
}

struct PlantedDeviation {
  const char* name;
  const char* precision;
  std::vector<double> StepArrays::* member;
  double tolerance_ratio;
};

constexpr PlantedDeviation kPlantedDeviations[] = {
    {"loss", "fp32", &StepArrays::loss, 1e-5},
    {"grad_norm", "fp32", &StepArrays::grad_norm, 1e-4},
    {"loss", "bf16", &StepArrays::loss, 2e-3},
    {"grad_norm", "bf16", &StepArrays::grad_norm, 2e-2},
};

MathsCheck check_planted(const PlantedDeviation& planted, double ratio) {
  BundleBuilder builder;
  set_config_field(builder.manifest().baseline, "precision", planted.precision);
  builder.manifest().arms[0].config = builder.manifest().baseline;
  builder.add_arm("optimizer", "fused");
  builder.add_round({{"baseline", kStepNs}, {"optimizer=fused", kStepNs}});
  deviate(builder.block("optimizer=fused", 0), planted.member, ratio);
  return check(builder).maths;
}

TEST(CheckMaths, AcceptsATrajectoryJustInsideTheTolerance) {
  for (const PlantedDeviation& planted : kPlantedDeviations) {
    for (const double sign : {1.0, -1.0}) {
      EXPECT_THAT(check_planted(planted, sign * 0.999 * planted.tolerance_ratio).failures,
                  IsEmpty())
          << planted.name << " in " << planted.precision;
    }
  }
}

TEST(CheckMaths, RefusesATrajectoryJustOutsideTheTolerance) {
  for (const PlantedDeviation& planted : kPlantedDeviations) {
    for (const double sign : {1.0, -1.0}) {
      EXPECT_THAT(check_planted(planted, sign * 1.001 * planted.tolerance_ratio).failures,
                  ElementsAre(HasSubstr(planted.name)))
          << planted.name << " in " << planted.precision;
    }
  }
}

TEST(CheckMaths, NamesTheStepThatDeviatesMost) {
  BundleBuilder builder = one_round();
  // Losses are 5 and 4.9 in the warm-up, 5, 4.9, 4.8, 4.7 in the measured steps.
  builder.block("optimizer=fused", 0).steps.loss[3] = 4.7 * 1.06;
  const MathsCheck maths = check(builder).maths;
  EXPECT_THAT(
      maths.failures,
      ElementsAre("optimizer=fused, round 0: loss leaves that of baseline: mean |ratio - 1| "
                  "over the first 6 steps is 1.0e-02, allowed 1.0e-05 (most at step 5: 4.982 "
                  "against 4.7)"));
  EXPECT_NEAR(*maths.loss_deviation_ratio, 0.01, 1e-12);
  EXPECT_NEAR(*maths.grad_norm_deviation_ratio, 0, 1e-12);
}

TEST(CheckMaths, LooksOnlyAtTheFirstFortySteps) {
  BundleBuilder builder = one_round();
  for (const char* arm : {"baseline", "optimizer=fused"}) {
    StepArrays& steps = builder.block(arm, 0).steps;
    for (auto* values : {&steps.loss, &steps.grad_norm, &steps.lr}) values->assign(60, 1.0);
  }
  // Warm-up has 2 steps, so the measured step 38 is the trajectory's step 40, the 41st.
  builder.block("optimizer=fused", 0).steps.loss[38] = 2;
  EXPECT_THAT(check(builder).maths.failures, IsEmpty());
  builder.block("optimizer=fused", 0).steps.loss[37] = 2;
  EXPECT_THAT(check(builder).maths.failures, ElementsAre(HasSubstr("most at step 39")));
}

TEST(CheckMaths, TheMetricsSayOverHowManySteps) {
  const std::string steps = "over the first " + std::to_string(kNumTrajectorySteps) + " steps";
  for (const char* key : {"loss_deviation_ratio", "grad_norm_deviation_ratio"}) {
    EXPECT_THAT(std::string(find_metric(key)->formula), HasSubstr(steps)) << key;
  }
}

TEST(CheckMaths, CountsWhatIsNotFiniteAsOutside) {
  BundleBuilder builder = one_round();
  for (const char* arm : {"baseline", "optimizer=fused"}) {
    builder.block(arm, 0).steps.loss[1] = std::numeric_limits<double>::quiet_NaN();
  }
  EXPECT_THAT(check(builder).maths.failures, ElementsAre(HasSubstr("not finite")));
}

TEST(CheckMaths, LeavesOutWhatTheLossScalerOfFp16Skipped) {
  BundleBuilder builder = one_round("precision", "fp16");
  BlockRecord& block = builder.block("precision=fp16", 0);
  block.warmup.grad_norm[0] = std::numeric_limits<double>::infinity();
  block.steps.grad_norm[1] = std::numeric_limits<double>::quiet_NaN();
  const MathsCheck maths = check(builder).maths;
  EXPECT_THAT(maths.failures, IsEmpty());
  EXPECT_EQ(maths.grad_norm_deviation_ratio, 0);

  // The loss itself must be finite, and the other steps are still compared.
  deviate(block, &StepArrays::grad_norm, 0.03);
  EXPECT_NEAR(check(builder).maths.grad_norm_deviation_ratio.value(), 0.03, 1e-9);
  block.warmup.loss[0] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(check(builder).maths.failures.size(), 2U);
}

TEST(CheckMaths, RefusesAnFp16RunThatKeepsOverflowing) {
  BundleBuilder builder = one_round("precision", "fp16");
  BlockRecord& block = builder.block("precision=fp16", 0);
  for (std::size_t i = 0; i <= kMaxSkippedUpdates; ++i) {
    const auto append = [&](std::vector<double> StepArrays::* member, double value) {
      (block.steps.*member).push_back(value);
      (builder.block("baseline", 0).steps.*member).push_back(1);
    };
    append(&StepArrays::loss, 1);
    append(&StepArrays::grad_norm, std::numeric_limits<double>::infinity());
    append(&StepArrays::lr, 1);
  }
  EXPECT_THAT(check(builder).maths.failures, ElementsAre(HasSubstr("grad_norm")));
}

TEST(CheckMaths, HasNoTrajectoryCheckForOtherContracts) {
  for (const Contract contract : {Contract::kSameTokens, Contract::kDifferentMaths}) {
    BundleBuilder builder = one_round();
    builder.manifest().arms[1].contract = contract;
    deviate(builder.block("optimizer=fused", 0), &StepArrays::loss, 0.5);
    const MathsCheck maths = check(builder).maths;
    EXPECT_THAT(maths.failures, IsEmpty());
    EXPECT_FALSE(maths.loss_deviation_ratio);
  }
}

TEST(CheckMaths, MeasuresALowerPrecisionWithoutALimit) {
  BundleBuilder builder = one_round();
  builder.manifest().arms[1].contract = Contract::kLowerPrecision;
  deviate(builder.block("optimizer=fused", 0), &StepArrays::loss, 0.5);
  deviate(builder.block("optimizer=fused", 0), &StepArrays::grad_norm, 0.25);
  const MathsCheck maths = check(builder).maths;
  EXPECT_THAT(maths.failures, IsEmpty());
  EXPECT_FALSE(maths.tolerance);
  EXPECT_NEAR(maths.loss_deviation_ratio.value(), 0.5, 1e-12);
  EXPECT_NEAR(maths.grad_norm_deviation_ratio.value(), 0.25, 1e-12);
  // What is not finite is a fault at any precision.
  builder.block("optimizer=fused", 0).steps.loss[1] = std::numeric_limits<double>::infinity();
  EXPECT_THAT(
      check(builder).maths.failures,
      ElementsAre(AllOf(HasSubstr("loss leaves"), HasSubstr("allowed any that is finite"))));
}

// What an arm writes that runs forward passes alone.
BundleBuilder one_round_of_forward_passes() {
  BundleBuilder builder = one_round();
  builder.manifest().arms[1].contract = Contract::kForwardOnly;
  BlockRecord& block = builder.block("optimizer=fused", 0);
  block.final_weights_hash = block.weights_hash;
  for (StepArrays* steps : {&block.warmup, &block.steps}) {
    steps->grad_norm.assign(steps->size(), std::numeric_limits<double>::quiet_NaN());
    steps->lr = steps->grad_norm;
    // Without training the loss stays.
    steps->loss.assign(steps->size(), block.warmup.loss.front());
  }
  return builder;
}

TEST(CheckMaths, ComparesTheFirstLossAloneOfForwardPasses) {
  BundleBuilder builder = one_round_of_forward_passes();
  const MathsCheck maths = check(builder).maths;
  EXPECT_THAT(maths.failures, IsEmpty());
  EXPECT_DOUBLE_EQ(maths.loss_deviation_ratio.value(), 0);
  EXPECT_FALSE(maths.grad_norm_deviation_ratio);
  builder.block("optimizer=fused", 0).warmup.loss.front() *= 1.1;
  EXPECT_THAT(check(builder).maths.failures,
              ElementsAre(HasSubstr("loss leaves that of baseline")));
}

TEST(CheckMaths, WantsTheSameLearningRates) {
  BundleBuilder builder = one_round();
  // A rate that was baked into a captured step stays where it was.
  builder.block("optimizer=fused", 0).steps.lr = {1e-4, 1e-4, 1e-4, 1e-4};
  EXPECT_THAT(check(builder).maths.failures,
              ElementsAre("optimizer=fused, round 0, step 3: lr is 0.0001 against 0.0002 of "
                          "baseline"));
}

TEST(CheckMaths, ForgivesTheRoundingOfALearningRateInSinglePrecision) {
  BundleBuilder builder = one_round();
  for (double& lr : builder.block("optimizer=fused", 0).steps.lr) {
    lr = static_cast<double>(static_cast<float>(lr));
  }
  EXPECT_THAT(check(builder).maths.failures, IsEmpty());
}

TEST(CheckMaths, WantsTrainingToChangeTheParameters) {
  BundleBuilder builder = one_round("graph", "on");
  builder.block("graph=on", 0).final_weights_hash = "weights";
  EXPECT_THAT(check(builder).maths.failures,
              ElementsAre("graph=on, round 0: final_weights_hash \"weights\" equals weights_hash "
                          "\"weights\": training changed no parameter"));
}

}  // namespace
}  // namespace steplens
