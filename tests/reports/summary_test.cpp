#include "reports/summary.h"

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ToggleSentences, AreOneAToggleWithTheBaselinesLevel) {
  const Bundle bundle = eight_rounds().bundle();
  EXPECT_THAT(
      toggle_sentences(bundle.manifest, compute_results(bundle)),
      ElementsAre("optimizer (baseline: foreach): fused is faster: +3.08 % [3.02, 3.14].",
                  HasSubstr("checkpoint (baseline: off): full is equivalent within 1 %: ")));
}

TEST(ToggleSentences, JoinTheLevelsAndSayWhatMemoryTheyCost) {
  const Manifest manifest;
  Results results;
  results.arms = {{.name = "baseline", .is_baseline = true, .peak_allocated_bytes = 10LL << 30},
                  {.name = "attention=math",
                   .toggle = "attention",
                   .level = "math",
                   .reference = "baseline",
                   .differing_keys = {"attention"},
                   .verdict = Verdict::kSlower,
                   .effect_ratio = 0.5,
                   .peak_allocated_bytes = 12LL << 30,
                   .labels = {"clock-mediated"}},
                  {.name = "attention=cudnn",
                   .toggle = "attention",
                   .level = "cudnn",
                   .reference = "baseline",
                   .differing_keys = {"attention"},
                   .verdict = Verdict::kNoEffect,
                   .peak_allocated_bytes = 10LL << 30}};
  EXPECT_THAT(toggle_sentences(manifest, results),
              ElementsAre("attention (baseline: flash): math is slower: -50 %, with 2.00 GiB more "
                          "memory at the peak (clock-mediated); cudnn changed nothing that ran."));
}

TEST(ToggleSentences, SayWhatAnArmIsComparedWithWhereItIsNotTheBaseline) {
  Results results;
  results.arms = {{.name = "baseline", .is_baseline = true},
                  {.name = "graph=on",
                   .toggle = "graph",
                   .level = "on",
                   .reference = "baseline",
                   .differing_keys = {"graph"},
                   .verdict = Verdict::kFaster,
                   .effect_ratio = 1.25},
                  {.name = "attention=math+graph=on",
                   .toggle = "attention",
                   .level = "math",
                   .reference = "graph=on",
                   .differing_keys = {"attention"},
                   .verdict = Verdict::kSlower,
                   .effect_ratio = 0.5}};
  EXPECT_THAT(toggle_sentences({}, results),
              ElementsAre("graph (baseline: off): on is faster: +25 %.",
                          "attention=math+graph=on is slower: -50 % over graph=on."));
}

TEST(ToggleSentences, AreAbsentInAnAa) {
  Results results;
  results.aa = AaResult{};
  EXPECT_THAT(toggle_sentences({}, results), IsEmpty());
}

TEST(DoubtsLine, CountsWhatThereIsToDoubt) {
  Results results;
  results.warnings = {"a", "b"};
  results.failures = {{.arm = "x"}};
  results.arms = {{.name = "x"}};
  const Bundle bundle = {.folder = "x"};
  EXPECT_EQ(doubts_line({.bundle = bundle, .results = results}),
            "What could be wrong with this: 2 warnings, 1 failed block, 0 arms with a label.");
}

}  // namespace
}  // namespace steplens
