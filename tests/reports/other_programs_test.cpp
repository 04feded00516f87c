#include "reports/programs/other_programs.h"

#include <cmath>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

BundleBuilder with_programs() {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("checkpoint", "full");
  for (const char* name : {"torch-eager", "torch-compile"}) {
    builder.manifest().arms.push_back({.name = name,
                                       .reference = "baseline",
                                       .config = builder.manifest().baseline,
                                       .command = {"program.py"}});
  }
  return builder;
}

void add_rounds(BundleBuilder& builder, int num_rounds) {
  for (int round = 0; round < num_rounds; ++round) {
    const std::int64_t drift_ns =
        std::int64_t{4'000} * round;  // The machine slows down; pairs do not see it.
    builder.add_round({{"baseline", 1'000'000 + drift_ns},
                       {"optimizer=fused", 500'000 + drift_ns},
                       {"checkpoint=full", 1'200'000 + drift_ns},
                       {"torch-eager", 1'000'000 + drift_ns},
                       {"torch-compile", 600'000 + drift_ns + (round % 2 == 0 ? 3'000 : -3'000)}});
  }
}

OtherPrograms compared(const BundleBuilder& builder) {
  const Bundle bundle = builder.bundle();
  return compare_programs(bundle, compute_results(bundle));
}

TEST(OtherPrograms, AreBesideTheFastestOfOursInTheSameRounds) {
  BundleBuilder builder = with_programs();
  add_rounds(builder, 8);
  const OtherPrograms programs = compared(builder);
  EXPECT_EQ(programs.own_arm, "optimizer=fused");
  ASSERT_EQ(programs.ratios.size(), 2U);
  const ProgramRatio& row = programs.ratios[1];
  EXPECT_EQ(row.program, "torch-compile");
  EXPECT_EQ(row.num_rounds, 8);
  // By hand: mean and standard deviation of the log-ratios, and the t quantile of 7 degrees.
  std::vector<double> logs;
  double mean = 0;
  for (int round = 0; round < 8; ++round) {
    const double drift_ns = 4'000.0 * round;
    logs.push_back(
        std::log((600'000 + drift_ns + (round % 2 == 0 ? 3'000 : -3'000)) / (500'000 + drift_ns)));
    mean += logs.back() / 8;
  }
  double squares = 0;
  for (const double value : logs) squares += (value - mean) * (value - mean);
  const double half = 2.364624 * std::sqrt(squares / 7 / 8);
  EXPECT_NEAR(row.ratio, std::exp(mean), 1e-9);
  EXPECT_NEAR(row.low_ratio, std::exp(mean - half), 1e-6);
  EXPECT_NEAR(row.high_ratio, std::exp(mean + half), 1e-6);
  EXPECT_THAT(programs_sentence(programs),
              HasSubstr("the tokens of torch-compile, the fastest of the other programs"));
}

TEST(OtherPrograms, LeaveOutWhatDidOtherMathsOrFailed) {
  BundleBuilder builder = with_programs();
  add_rounds(builder, 6);
  Bundle bundle = builder.bundle();
  Results results = compute_results(bundle);
  for (ArmResult& arm : results.arms) {
    if (arm.name == "optimizer=fused") arm.verdict = Verdict::kMathsDiffers;
    if (arm.name == "torch-eager") arm.verdict = Verdict::kFailed;
  }
  const OtherPrograms programs = compare_programs(bundle, results);
  EXPECT_EQ(programs.own_arm, "baseline");
  ASSERT_EQ(programs.ratios.size(), 1U);
  EXPECT_EQ(programs.ratios[0].program, "torch-compile");
  EXPECT_LT(programs.ratios[0].ratio, 1) << "the other program may be the faster one";
}

// A forward pass alone, FP8, rows in another order: each would be faster than what it stands
// beside.
TEST(OtherPrograms, LeaveOutWhatDoesNotPromiseTheSameMaths) {
  for (const Contract contract : {Contract::kForwardOnly, Contract::kLowerPrecision,
                                  Contract::kSameTokens, Contract::kDifferentMaths}) {
    BundleBuilder builder = with_programs();
    for (Arm& arm : builder.manifest().arms) {
      if (arm.name == "torch-compile" || arm.name == "optimizer=fused") arm.contract = contract;
    }
    add_rounds(builder, 6);
    const OtherPrograms programs = compared(builder);
    EXPECT_EQ(programs.own_arm, "baseline");
    ASSERT_EQ(programs.ratios.size(), 1U);
    EXPECT_EQ(programs.ratios[0].program, "torch-eager");
  }
}

TEST(OtherPrograms, SayNothingWithoutASecondProgramOrRound) {
  BundleBuilder alone;
  alone.add_arm("optimizer", "fused");
  alone.add_rounds({{"baseline", {1'000, 1'001}}, {"optimizer=fused", {900, 901}}});
  EXPECT_THAT(compared(alone).ratios, IsEmpty());
  BundleBuilder builder = with_programs();
  add_rounds(builder, 1);
  const OtherPrograms programs = compared(builder);
  EXPECT_THAT(programs.ratios, IsEmpty()) << "one round has no interval";
  EXPECT_EQ(programs_sentence(programs), "");
}

TEST(OtherPrograms, TableHasTimesAndMemory) {
  BundleBuilder builder = with_programs();
  add_rounds(builder, 6);
  const Bundle bundle = builder.bundle();
  const Results results = compute_results(bundle);
  const OtherPrograms programs = {.own_arm = "best",
                                  .ratios = {{.program = "torch-compile",
                                              .num_rounds = 6,
                                              .ratio = 1.26496,
                                              .low_ratio = 1.26238,
                                              .high_ratio = 1.26751,
                                              .memory_ratio = 0.74}}};
  const Table table = programs_table(programs, results);
  EXPECT_EQ(table.columns[2].header, "best / it, tokens/s [95 %]");
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_THAT(table.rows[0],
              ElementsAre("torch-compile", ::testing::_, "1.265 [1.262, 1.268]", "0.740", "6"));
}

}  // namespace
}  // namespace steplens
