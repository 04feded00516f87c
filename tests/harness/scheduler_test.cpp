#include "harness/scheduler.h"

#include <set>

#include "tests/harness/scheduler_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing_support::arms_of_kind;
using testing_support::arms_of_round;
using testing_support::cpu_baseline;
using testing_support::expect_whole;
using testing_support::FakeBlock;
using testing_support::FakeWorld;
using testing_support::num_complete;
using testing_support::plan_of_rounds;
using testing_support::vocabulary;

// ---- The plain run. ----

TEST(RunPlan, RunsPilotsThenASoakThenRoundsInTheDrawnOrder) {
  FakeWorld world;
  const RunOutcome outcome = world.start(plan_of_rounds(3));
  EXPECT_EQ(outcome.end, RunEnd::kDone);
  EXPECT_EQ(outcome.num_complete_rounds, 3);
  EXPECT_EQ(world.num_finished, 1);

  const std::vector<std::string> arms = {"baseline", "attention=math", "optimizer=fused"};
  ASSERT_EQ(world.ran.size(), 3U + 1U + 9U);
  EXPECT_EQ(arms_of_kind(world, BlockKind::kPilot), arms);
  EXPECT_EQ(world.ran[3].kind, BlockKind::kSoak);
  EXPECT_EQ(world.ran[3].arm, "baseline");
  const Bundle bundle = world.open();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> drawn;
    for (const int i : draw_round_order(1, round, 3)) {
      drawn.push_back(arms[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(arms_of_round(world, round), drawn);
    EXPECT_EQ(bundle.manifest.rounds[static_cast<std::size_t>(round)].order, drawn);
  }
  EXPECT_EQ(bundle.manifest.stop_reason, "planned rounds done");
  EXPECT_EQ(num_complete(bundle), 3);
  expect_whole(bundle);
}

TEST(RunPlan, NamesFoldersByIndexKindAndArm) {
  FakeWorld world;
  world.start(plan_of_rounds(1));
  std::set<std::string> names;
  for (const auto& folder : fs::directory_iterator(world.bundle() / "blocks")) {
    names.insert(folder.path().filename().string());
  }
  EXPECT_THAT(names, AllOf(Contains("0000-pilot-baseline"), Contains("0001-pilot-attention-math"),
                           Contains("0003-soak-baseline")));
  EXPECT_EQ(names.size(), 7U);
}

TEST(RunPlan, LeavesOnlyPublishedFiles) {
  FakeWorld world;
  world.start(plan_of_rounds(1));
  for (const auto& entry : fs::recursive_directory_iterator(world.bundle())) {
    const std::string name = entry.path().filename().string();
    EXPECT_FALSE(name.starts_with('.')) << name;  // Locks, local state, temporary folders.
    EXPECT_NE(name, "block_config.json");
    if (entry.path().extension() != ".json") continue;
    EXPECT_THAT(read_file(entry.path()), Not(HasSubstr(world.folder().string()))) << name;
  }
}

TEST(RunPlan, GivesAllBlocksTheSameSteps) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake{.step_ns = 0.5e9};  // 20 steps fit 10 s.
    if (block.arm == "attention=math") fake.detected_warmup_steps = 31;
    return fake;
  };
  world.start(plan_of_rounds(2));
  for (const BlockConfig& block : world.ran) {
    if (block.kind == BlockKind::kPilot) {
      EXPECT_EQ(block.num_warmup_steps, 200);
      continue;
    }
    EXPECT_EQ(block.num_warmup_steps, 31);  // The largest that a pilot found.
    EXPECT_EQ(block.num_measured_steps, 20);
  }
  EXPECT_EQ(world.open().manifest.num_warmup_steps, 31);
  EXPECT_EQ(world.open().manifest.num_measured_steps, 20);
}

TEST(RunPlan, WarmsUpLongEnoughForTheHostToGetAhead) {
  FakeWorld world;
  world.answer = [](const BlockConfig&, int) { return FakeBlock{.detected_warmup_steps = 1}; };
  world.start(plan_of_rounds(1));
  EXPECT_EQ(world.ran.back().num_warmup_steps, 4);
}

TEST(RunPlan, TakesStepsThatTheUserGave) {
  FakeWorld world;
  Plan plan = plan_of_rounds(1);
  plan.num_warmup_steps = 3;
  plan.num_measured_steps = 7;
  world.start(plan);
  EXPECT_EQ(world.ran.back().num_warmup_steps, 3);
  EXPECT_EQ(world.ran.back().num_measured_steps, 7);
}

TEST(RunPlan, GivesArmsTheSameTokensWhereTheMicroBatchIsHeld) {
  FakeWorld world;
  RunConfig baseline = cpu_baseline();
  baseline.accumulation_holds = AccumulationHolds::kMicroBatch;
  const Plan plan = make_plan(
      {.baseline = baseline, .toggles = parse_toggle_choices("accumulation=4"), .num_rounds = 1},
      vocabulary());
  world.start(plan);
  for (const BlockConfig& block : world.ran) {
    if (block.kind == BlockKind::kPilot) continue;
    // Both pilots found 12 steps of warm-up: 48 of the baseline's. 30 measured become 32.
    const bool is_arm = block.arm == "accumulation=4";
    EXPECT_EQ(block.num_warmup_steps, is_arm ? 12 : 48);
    EXPECT_EQ(block.num_measured_steps, is_arm ? 8 : 32);
  }
}

TEST(RunPlan, RunsNoBlockOfWhatCannotRun) {
  FakeWorld world;
  const Plan plan = make_plan({.baseline = cpu_baseline(),
                               .toggles = parse_toggle_choices("attention=math|cudnn"),
                               .num_rounds = 2},
                              vocabulary());
  world.start(plan);
  for (const BlockConfig& block : world.ran) EXPECT_NE(block.arm, "attention=cudnn");
  EXPECT_EQ(find_arm(world.open().manifest, "attention=cudnn")->not_applicable_reason,
            "needs a CUDA device");
}

TEST(RunPlan, RunsOnePilotOfAnAa) {
  FakeWorld world;
  world.start(make_plan({.baseline = cpu_baseline(), .num_aa = 4, .num_rounds = 2}, vocabulary()));
  EXPECT_THAT(arms_of_kind(world, BlockKind::kPilot), ElementsAre("aa-00"));
  EXPECT_EQ(arms_of_round(world, 1).size(), 5U);
}

TEST(RunPlan, RunsABaselineAlone) {
  FakeWorld world;
  const RunOutcome outcome =
      world.start(make_baseline_plan({.baseline = cpu_baseline(), .num_rounds = 3}, vocabulary()));
  EXPECT_EQ(outcome.end, RunEnd::kDone);
  EXPECT_EQ(outcome.num_complete_rounds, 3);
}

TEST(RunPlan, StoresStartAndDurationOfEveryBlock) {
  FakeWorld world;
  world.start(plan_of_rounds(1));
  const Manifest manifest = world.open().manifest;
  for (std::size_t i = 0; i < manifest.blocks.size(); ++i) {
    EXPECT_NEAR(manifest.blocks[i].start_s, 10.0 * static_cast<double>(i), 0.01);
    EXPECT_EQ(manifest.blocks[i].duration_s, 10);
  }
}

// ---- Ends. ----

TEST(RunPlan, StopsAtTheBoundaryOfTheRoundThatWouldNotFit) {
  FakeWorld world;
  RunOptions options = world.options();
  // 3 pilots and a soak take 40 s, a round 30 s. 3 rounds end at 130 s; a fourth would at 160 s.
  options.max_seconds = 150;
  const RunOutcome outcome = world.run_here(plan_of_rounds(12), options);
  EXPECT_EQ(outcome.end, RunEnd::kTimeLimit);
  EXPECT_EQ(outcome.num_complete_rounds, 3);
  EXPECT_THAT(world.open().manifest.stop_reason,
              AllOf(HasSubstr("time limit"), HasSubstr("3 of 12 rounds")));
  EXPECT_EQ(world.num_finished, 1);
  // Another session goes on, with a clock of its own.
  options.is_resume = true;
  EXPECT_EQ(world.run_here(plan_of_rounds(12), options).num_complete_rounds, 7);
  options.max_seconds.reset();
  EXPECT_EQ(world.run_here(plan_of_rounds(12), options).end, RunEnd::kDone);
  EXPECT_EQ(world.open().manifest.stop_reason, "planned rounds done");
  expect_whole(world.open());
}

TEST(RunPlan, StopsInThePilotsIfTheTimeIsOver) {
  FakeWorld world;
  RunOptions options = world.options();
  options.max_seconds = 15;
  const RunOutcome outcome = world.run_here(plan_of_rounds(12), options);
  EXPECT_EQ(outcome.end, RunEnd::kTimeLimit);
  EXPECT_EQ(outcome.num_complete_rounds, 0);
  EXPECT_EQ(world.ran.size(), 2U);
}

TEST(RunPlan, LooksAtTheHalfwidthFromRoundTwelveOn) {
  FakeWorld world;
  MatrixRequest request{.baseline = cpu_baseline(),
                        .toggles = parse_toggle_choices("attention=math"),
                        .until_halfwidth_ratio = 0.01};
  // No noise at all: the width is 0 from the second round on.
  const RunOutcome outcome = world.start(make_plan(request, vocabulary()));
  EXPECT_EQ(outcome.end, RunEnd::kDone);
  EXPECT_EQ(outcome.num_complete_rounds, 12);
  EXPECT_THAT(world.open().manifest.stop_reason, HasSubstr("half-width"));
}

TEST(RunPlan, NamesTheHalfwidthThatWasNotReached) {
  FakeWorld world;
  // Step times of attention=math jump by 10 % from round to round.
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.arm == "attention=math" && block.round_index % 2 == 1) fake.step_ns *= 1.1;
    return fake;
  };
  MatrixRequest request{.baseline = cpu_baseline(),
                        .toggles = parse_toggle_choices("attention=math"),
                        .num_rounds = 14,
                        .until_halfwidth_ratio = 0.001};
  const RunOutcome outcome = world.start(make_plan(request, vocabulary()));
  EXPECT_EQ(outcome.num_complete_rounds, 14);
  EXPECT_THAT(outcome.reason, AllOf(HasSubstr("not reached"), HasSubstr("attention=math")));
}

// ---- Progress. ----

TEST(RunPlan, PrintsALineABlockAndTheEstimatesOfEveryRound) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.arm == "attention=math") fake.step_ns *= 2;  // Half the rate.
    return fake;
  };
  world.start(plan_of_rounds(2));
  const std::string text = world.output.str();
  EXPECT_THAT(text, HasSubstr("round 2/2  block 3/3"));
  EXPECT_THAT(text, HasSubstr("ok after 10.0 s"));
  EXPECT_THAT(text, HasSubstr("after 2 rounds:"));
  EXPECT_THAT(text, HasSubstr("attention=math -50.00 % +- 0.00 %"));
}

}  // namespace
}  // namespace steplens
