#include "harness/progress.h"

#include <cmath>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "harness/block_durations.h"

namespace steplens {
namespace {

TEST(DurationText, UsesTheTwoLargestUnits) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(59.6), "1 min 0 s");
  EXPECT_EQ(duration_text(250), "4 min 10 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
}

TEST(EstimateText, GivesEffectAndHalfWidthInPercentOfTheRate) {
  const ArmEstimate estimate{.arm = "a=b",
                             .estimate = {.mean_log_ratio = std::log(1.02),
                                          .num_rounds = 6,
                                          .low_log_ratio = std::log(1.02) - 0.001,
                                          .high_log_ratio = std::log(1.02) + 0.001}};
  EXPECT_EQ(estimate_text(estimate), "a=b +2.00 % +- 0.10 %");
}

TEST(EstimateText, GivesNoWidthAfterOneRound) {
  EXPECT_EQ(
      estimate_text({.arm = "a=b", .estimate = {.mean_log_ratio = std::log(0.5), .num_rounds = 1}}),
      "a=b -50.00 %");
}

TEST(Progress, RewritesOneLineOnATerminal) {
  std::ostringstream stream;
  {
    Progress progress(stream, true, false);
    progress.block_starts({.phase = "pilot", .arm = "x", .block_number = 1, .num_blocks = 2});
    progress.block_ends({}, "ok", 1);
    progress.block_starts({.phase = "pilot", .arm = "y", .block_number = 2, .num_blocks = 2});
  }
  EXPECT_EQ(stream.str(),
            "pilot  block 1/2  x  about 0 s left\r\033[K"
            "pilot  block 2/2  y  about 0 s left\r\033[K");
}

TEST(Progress, IsQuietExceptForWhatMustBeSaid) {
  std::ostringstream stream;
  Progress progress(stream, false, true);
  progress.block_ends({.phase = "pilot"}, "ok", 1);
  progress.round_ends(1, {});
  progress.say("stopped");
  EXPECT_EQ(stream.str(), "stopped\n");
}

TEST(BlockDurations, PrefersWhatItHasSeen) {
  const Manifest manifest{
      .arms = {{.name = "a"}, {.name = "b"}}, .num_warmup_steps = 10, .num_measured_steps = 30};
  BlockDurations durations;
  EXPECT_EQ(durations.expected_s(manifest, "a"), kDefaultBlockS);
  // A pilot of 5 s with 20 steps of 0.1 s: 3 s to start, so 40 steps take 7 s.
  BlockRecord pilot;
  pilot.warmup.step_wall_ns.assign(20, 100'000'000);
  durations.add({.arm = "a", .kind = BlockKind::kPilot, .duration_s = 5}, pilot);
  EXPECT_NEAR(durations.expected_s(manifest, "a"), 7, 1e-9);
  EXPECT_NEAR(durations.expected_s(manifest, "b"), 7, 1e-9);  // The median of all arms.
  for (const double duration_s : {9.0, 11.0, 10.0}) {
    durations.add({.arm = "a", .duration_s = duration_s}, {});
  }
  durations.add({.arm = "a", .status = BlockStatus::kCrash, .duration_s = 1000}, {});
  EXPECT_EQ(durations.expected_s(manifest, "a"), 10);
  EXPECT_EQ(durations.expected_s(manifest, std::vector<std::string>{"a", "a"}), 20);
}

TEST(BlockDurations, ExpectsBlocksToFindWhatThePilotCompiled) {
  const Manifest manifest{
      .arms = {{.name = "a"}, {.name = "b"}}, .num_warmup_steps = 10, .num_measured_steps = 30};
  BlockDurations durations;
  BlockRecord pilot;
  pilot.warmup.step_wall_ns.assign(20, 100'000'000);
  pilot.compile_ns = 40'000'000'000;
  // 48 s, of which 2 are steps and 40 compile: 6 s to start, and 40 steps take 4 s.
  durations.add({.arm = "a", .kind = BlockKind::kPilot, .duration_s = 48}, pilot);
  EXPECT_NEAR(durations.expected_s(manifest, "a"), 10, 1e-9);
  // A package that was exported before the pilot began is no part of its 5 s.
  durations.add({.arm = "b", .kind = BlockKind::kPilot, .duration_s = 5}, pilot);
  EXPECT_NEAR(durations.expected_s(manifest, "b"), 7, 1e-9);
}

}  // namespace
}  // namespace steplens
