#include "reports/matrix_table.h"

#include <sstream>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The eight rounds on a GPU, with an arm that failed and one that cannot run.
Results full_matrix() {
  BundleBuilder builder;
  Manifest& manifest = builder.manifest();
  manifest.gpu_name = "NVIDIA H200";
  manifest.baseline.precision = Precision::kBf16;
  manifest.arms[0].config = manifest.baseline;
  builder.add_arm("attention", "math");
  builder.add_arm("graph", "on").not_applicable_reason = "needs optimizer=foreach or fused";
  builder.add_arm("optimizer", "fused");
  builder.add_arm("checkpoint", "full");
  const EightRounds steps;
  builder.add_rounds(
      {{"baseline", steps.base}, {"optimizer=fused", steps.fast}, {"checkpoint=full", steps.same}});
  manifest.failed_arms["attention=math"] = "CUDA out of memory, twice";
  for (const auto& [arm, mebibytes] : std::map<std::string, double>{
           {"baseline", 34816}, {"optimizer=fused", 34816}, {"checkpoint=full", 512}}) {
    builder.edit_blocks(arm, [&](BlockRecord& block) {
      block.memory["peak_allocated_bytes"] = mebibytes * 1024 * 1024;
    });
  }
  return compute_results(builder.bundle());
}

// MFU: 999065 positions/s x 688128 FLOP / 989.4e12 = 0.0695 %, and in proportion.
TEST(MatrixText, IsTheGoldenTable) {
  EXPECT_EQ(
      matrix_text(full_matrix()),
      "Fastest: optimizer=fused, +3.08 % [3.02, 3.14] over the baseline\n"
      "\n"
      "arm               tokens/s      step  effect [95 %]          adj. p  verdict         peak "
      "memory       MFU\n"
      "--------------------------------------------------------------------------------------------"
      "--"
      "------------\n"
      "baseline           999,100  1.001 ms  -                           -  -                  "
      "34.0 "
      "GiB  0.0695 %\n"
      "optimizer=fused  1,030,000  971.0 us  +3.08 % [3.02, 3.14]    0.008  FASTER             "
      "34.0 "
      "GiB  0.0716 %\n"
      "checkpoint=full    998,900  1.001 ms  -0.01 % [-0.13, 0.10]   0.828  EQUIVALENT          "
      "512 "
      "MiB  0.0695 %\n"
      "attention=math           -         -  -                           -  FAILED                 "
      "   "
      "-         -\n"
      "graph=on                 -         -  -                           -  not applicable         "
      "   "
      "-         -\n"
      "\n"
      "attention=math: FAILED: CUDA out of memory, twice\n"
      "graph=on is not applicable: needs optimizer=foreach or fused\n");
}

TEST(MatrixText, StaysWithinItsWidth) {
  Results results = full_matrix();
  results.arms[1].reason +=
      " and the rest of a very long explanation that no terminal shows whole, "
      "because it goes on and on, as those of compilers do";
  results.arms[3].name = "sync_every_micro_step=on+accumulation=16+precision=tf32";
  std::istringstream lines(matrix_text(results, 120));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
}

TEST(Headline, NamesTheFastestArmThatIsProvenFaster) {
  Results results = full_matrix();
  ArmResult faster = results.arms[3];
  faster.name = "external";
  faster.valid_tokens_per_s = 2e6;
  faster.verdict = Verdict::kMathsDiffers;
  results.arms.push_back(faster);
  EXPECT_THAT(headline(results), StartsWith("Fastest: optimizer=fused"));
  results.arms.back().verdict = Verdict::kFaster;
  results.arms.back().labels = {"multi-variable"};
  EXPECT_EQ(headline(results),
            "Fastest: external, +3.08 % [3.02, 3.14] over the baseline (multi-variable)");
}

TEST(Headline, OfAnArmComparedWithAnotherSaysWhatItIsOverTheBaseline) {
  Results results = full_matrix();
  ArmResult both = results.arms[3];
  both.name = "optimizer=fused+graph=on";
  both.reference = "optimizer=fused";
  both.valid_tokens_per_s = 2e6;
  both.effect_ratio = 1.1;
  both.effect_low_ratio = 1.09;
  both.effect_high_ratio = 1.11;
  results.arms.push_back(both);
  results.arms[3].effect_ratio = 1.2;
  // 1.2 x 1.1 = 1.32.
  EXPECT_THAT(headline(results),
              StartsWith("Fastest: optimizer=fused+graph=on, +10.0 % [9.0, 11.0] "
                         "over optimizer=fused, +32 % over the baseline"));
  results.arms[3].effect_ratio.reset();
  EXPECT_THAT(headline(results), testing::EndsWith("over optimizer=fused"));
}

TEST(Headline, NeverSaysThatThereIsNoDifference) {
  Results results = full_matrix();
  results.arms[3].verdict = Verdict::kInconclusive;
  EXPECT_EQ(headline(results),
            "Nothing is proven to be faster than the baseline: 1 equivalent, 1 "
            "inconclusive, 1 failed");
}

TEST(Headline, SaysThatNothingIsMeasured) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.manifest().stop_reason = "time limit: 10 s allow 0 of 12 rounds";
  EXPECT_EQ(headline(compute_results(builder.bundle())),
            "Nothing is measured: no round is complete; time limit: 10 s allow 0 of 12 rounds");
}

TEST(Headline, GivesTheOutcomeOfAnAa) {
  Results results;
  results.aa = {.num_comparisons = 20,
                .num_rejected = 1,
                .num_allowed = 3,
                .median_half_width_ratio = 0.00081,
                .is_accepted = true};
  EXPECT_EQ(headline(results),
            "A/A passed: 1 of 20 comparisons of the baseline with itself at p <= "
            "0.05, at most 3 allowed; median half-width 0.0810 %");
  results.aa->num_rejected = 4;
  results.aa->is_accepted = false;
  EXPECT_THAT(headline(results), StartsWith("A/A FAILED: 4 of 20"));
}

TEST(MatrixNotes, SayWithWhatAGridCellIsCompared) {
  Results results = full_matrix();
  results.arms[4].reference = "optimizer=fused";
  EXPECT_THAT(matrix_notes(results), ::testing::Contains("checkpoint=full is compared with "
                                                         "optimizer=fused"));
}

TEST(VerdictText, SaysWhenAProvenEffectIsSmall) {
  ArmResult arm{.verdict = Verdict::kFaster, .is_within_one_percent = true};
  EXPECT_EQ(verdict_text(arm, {}), "FASTER, within 1 %");
  arm.verdict = Verdict::kEquivalent;
  EXPECT_EQ(verdict_text(arm, {}), "EQUIVALENT");
  arm.verdict = Verdict::kNotEnoughRounds;
  EXPECT_EQ(verdict_text(arm, {}), "NOT ENOUGH ROUNDS");
}

TEST(MatrixTable, ShowsResidentMemoryWhereThereIsNoDeviceMemory) {
  Results results = full_matrix();
  for (ArmResult& arm : results.arms) {
    arm.peak_allocated_bytes.reset();
    arm.mfu_causal_ratio.reset();
    arm.peak_rss_bytes = 512LL * 1024 * 1024;
  }
  const std::string text = to_text(matrix_table(results));
  EXPECT_THAT(text, HasSubstr("peak RSS"));
  EXPECT_THAT(text, HasSubstr("512 MiB"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("MFU")));
}

}  // namespace
}  // namespace steplens
