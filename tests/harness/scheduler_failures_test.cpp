#include <algorithm>

#include "tests/harness/scheduler_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "harness/scheduler.h"

namespace steplens {
namespace {

using testing::AllOf;
using testing::Contains;
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

// ---- Blocks that fail. ----

TEST(RunPlan, RepeatsACrashOnceInTheSameRound) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int attempt) {
    FakeBlock fake;
    if (block.arm == "attention=math" && block.round_index == 1 && attempt == 0) {
      fake.signal = SIGSEGV;
    }
    return fake;
  };
  EXPECT_EQ(world.start(plan_of_rounds(3)).end, RunEnd::kDone);
  const Bundle bundle = world.open();
  EXPECT_TRUE(bundle.manifest.failed_arms.empty());
  EXPECT_EQ(num_complete(bundle), 3);
  expect_whole(bundle);
  const auto crashed = std::ranges::find(bundle.blocks, BlockStatus::kCrash, &BlockRecord::status);
  ASSERT_NE(crashed, bundle.blocks.end());
  EXPECT_THAT(crashed->reason, AllOf(HasSubstr("SIGSEGV"), HasSubstr("dying in x.py")));
  EXPECT_EQ(crashed->evidence["signal"], "SIGSEGV");
  const auto position = static_cast<std::size_t>(crashed - bundle.blocks.begin());
  EXPECT_TRUE(bundle.manifest.blocks[position].is_superseded);
}

TEST(RunPlan, FailsAnArmAfterTwoCrashesAndKeepsTheRounds) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.arm == "attention=math" && block.round_index >= 1) fake.signal = SIGABRT;
    return fake;
  };
  EXPECT_EQ(world.start(plan_of_rounds(4)).end, RunEnd::kDone);
  const Bundle bundle = world.open();
  EXPECT_THAT(bundle.manifest.failed_arms["attention=math"].get<std::string>(),
              AllOf(HasSubstr("crash"), HasSubstr("SIGABRT")));
  EXPECT_EQ(num_complete(bundle), 4);
  EXPECT_EQ(std::ranges::count(arms_of_round(world, 1), "attention=math"), 2);
  EXPECT_THAT(arms_of_round(world, 2), Not(Contains("attention=math")));
  EXPECT_EQ(bundle.manifest.rounds[2].order.size(), 2U);
  expect_whole(bundle);
}

TEST(RunPlan, ForgivesCrashesInDifferentRounds) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int attempt) {
    FakeBlock fake;
    if (block.arm == "attention=math" && attempt == 0) fake.signal = SIGABRT;
    return fake;
  };
  world.start(plan_of_rounds(3));
  EXPECT_TRUE(world.open().manifest.failed_arms.empty());
}

TEST(RunPlan, FailsAnArmInItsPilot) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    return FakeBlock{.status =
                         block.arm == "optimizer=fused" ? BlockStatus::kOom : BlockStatus::kOk};
  };
  world.start(plan_of_rounds(1));
  EXPECT_EQ(std::ranges::count(arms_of_kind(world, BlockKind::kPilot), "optimizer=fused"), 2);
  EXPECT_THAT(arms_of_round(world, 0), Not(Contains("optimizer=fused")));
  EXPECT_THAT(world.open().manifest.failed_arms["optimizer=fused"].get<std::string>(),
              HasSubstr("oom"));
}

TEST(RunPlan, FailsAnUnsupportedArmAtOnce) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    return FakeBlock{.status = block.arm == "optimizer=fused" ? BlockStatus::kUnsupported
                                                              : BlockStatus::kOk};
  };
  world.start(plan_of_rounds(1));
  EXPECT_EQ(std::ranges::count(arms_of_kind(world, BlockKind::kPilot), "optimizer=fused"), 1);
  EXPECT_EQ(world.open().manifest.failed_arms["optimizer=fused"], "unsupported: as the test wants");
}

TEST(RunPlan, RepeatsAgainWhenTheSecondFailureIsAnother) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int attempt) {
    FakeBlock fake;
    if (block.arm == "attention=math" && block.round_index == 0) {
      if (attempt == 0) fake.status = BlockStatus::kOom;
      if (attempt == 1) fake.status = BlockStatus::kNan;
    }
    return fake;
  };
  world.start(plan_of_rounds(1));
  EXPECT_EQ(std::ranges::count(arms_of_round(world, 0), "attention=math"), 3);
  EXPECT_TRUE(world.open().manifest.failed_arms.empty());
}

TEST(RunPlan, FailsWhatIsComparedWithAFailedArm) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.arm == "accumulation=2") fake.status = BlockStatus::kOom;
    return fake;
  };
  world.start(make_plan({.baseline = cpu_baseline(),
                         .grid = parse_toggle_choices("optimizer=fused,accumulation=2"),
                         .num_rounds = 1},
                        vocabulary()));
  const Manifest manifest = world.open().manifest;
  EXPECT_THAT(manifest.failed_arms["optimizer=fused+accumulation=2"].get<std::string>(),
              HasSubstr("its reference accumulation=2 failed"));
  EXPECT_FALSE(manifest.failed_arms.contains("optimizer=fused"));
}

TEST(RunPlan, EndsWhenNoArmIsLeft) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.arm != "baseline" && block.round_index == 1) fake.signal = SIGKILL;
    return fake;
  };
  const RunOutcome outcome = world.start(plan_of_rounds(9));
  EXPECT_EQ(outcome.end, RunEnd::kDone);
  EXPECT_EQ(outcome.num_complete_rounds, 2);
  EXPECT_THAT(outcome.reason, HasSubstr("all FAILED"));
}

TEST(RunPlan, EndsWhenTheBaselineFails) {
  for (const int round : {-1, 1}) {
    FakeWorld world;
    world.answer = [round](const BlockConfig& block, int) {
      FakeBlock fake;
      if (block.arm == "baseline" && block.kind != BlockKind::kSoak && block.round_index == round) {
        fake.status = BlockStatus::kNan;
      }
      return fake;
    };
    const RunOutcome outcome = world.start(plan_of_rounds(3));
    EXPECT_EQ(outcome.end, RunEnd::kBaselineFailed);
    EXPECT_THAT(outcome.reason, HasSubstr("nan"));
    // Resuming says the same again, and runs nothing.
    const std::size_t num_ran = world.ran.size();
    EXPECT_EQ(world.resume(plan_of_rounds(3)).end, RunEnd::kBaselineFailed);
    EXPECT_EQ(world.ran.size(), num_ran);
  }
}

TEST(RunPlan, RunsAnInvalidBlockAgainTwice) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int attempt) {
    FakeBlock fake;
    if (block.arm == "baseline" && block.round_index == 0 && attempt < 2) {
      fake.status = BlockStatus::kInvalid;
    }
    return fake;
  };
  world.start(plan_of_rounds(1));
  const Bundle bundle = world.open();
  EXPECT_EQ(std::ranges::count(arms_of_round(world, 0), "baseline"), 3);
  EXPECT_TRUE(bundle.manifest.rounds[0].is_complete);
  expect_whole(bundle);
}

TEST(RunPlan, RunsABlockAgainWhoseClocksDisagree) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int attempt) {
    // 1 % too short by the host's clock, as after a warm-up whose end was seen late.
    const bool is_late = block.arm == "optimizer=fused" && block.round_index == 0 && attempt == 0;
    return FakeBlock{.step_ns = is_late ? 1.98e6 : 2e6, .step_gpu_ns = 2e6};
  };
  world.start(plan_of_rounds(2));
  EXPECT_EQ(std::ranges::count(arms_of_round(world, 0), "optimizer=fused"), 2);
  EXPECT_EQ(std::ranges::count(arms_of_round(world, 1), "optimizer=fused"), 1);
  const Bundle bundle = world.open();
  const auto first = std::ranges::find_if(bundle.manifest.blocks, [](const BlockEntry& entry) {
    return entry.arm == "optimizer=fused" && entry.round_index == 0;
  });
  ASSERT_NE(first, bundle.manifest.blocks.end());
  EXPECT_EQ(first->status, BlockStatus::kInvalid);
  const BlockRecord record =
      read_block_record(world.bundle() / "blocks" / first->folder / "block.json");
  EXPECT_THAT(record.reason, HasSubstr("differs by -1.0 % from the sum of step_gpu_ns"));
  EXPECT_EQ(record.steps.step_wall_ns.front(), 1'980'000);
  expect_whole(bundle);
}

TEST(RunPlan, DropsARoundWholeWhoseBlockStaysInvalid) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.arm == "attention=math" && block.round_index == 1) {
      fake.status = BlockStatus::kInvalid;
    }
    return fake;
  };
  EXPECT_EQ(world.start(plan_of_rounds(3)).end, RunEnd::kDone);
  const Bundle bundle = world.open();
  ASSERT_EQ(bundle.manifest.rounds.size(), 4U);
  EXPECT_FALSE(bundle.manifest.rounds[1].is_complete);
  EXPECT_THAT(bundle.manifest.rounds[1].dropped_reason, HasSubstr("invalid 3 times"));
  EXPECT_EQ(bundle.manifest.rounds[3].index, 3);
  EXPECT_EQ(num_complete(bundle), 3);
  for (const BlockEntry& entry : bundle.manifest.blocks) {
    if (entry.round_index == 1) {
      EXPECT_TRUE(entry.is_superseded) << entry.folder;
    }
  }
}

TEST(RunPlan, GivesUpAfterThreeDroppedRoundsRunning) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    return FakeBlock{.status = block.kind == BlockKind::kThroughput ? BlockStatus::kInvalid
                                                                    : BlockStatus::kOk};
  };
  EXPECT_EQ(world.start(plan_of_rounds(12)).end, RunEnd::kUnsteady);
  EXPECT_EQ(world.open().manifest.rounds.size(), 3U);
  EXPECT_EQ(world.open().manifest.stop_reason, "");
  // Later the machine is fine.
  world.answer = [](const BlockConfig&, int) { return FakeBlock{}; };
  EXPECT_EQ(world.resume(plan_of_rounds(12)).num_complete_rounds, 12);
}

TEST(RunPlan, RunsAnInvalidPilotAgainInTheNextSession) {
  FakeWorld world;
  world.answer = [](const BlockConfig&, int) { return FakeBlock{.status = BlockStatus::kInvalid}; };
  EXPECT_EQ(world.start(plan_of_rounds(1)).end, RunEnd::kUnsteady);
  EXPECT_EQ(world.ran.size(), 3U);
  world.answer = [](const BlockConfig&, int) { return FakeBlock{}; };
  EXPECT_EQ(world.resume(plan_of_rounds(1)).end, RunEnd::kDone);
}

TEST(RunPlan, NotesASoakThatFails) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.kind == BlockKind::kSoak) fake.signal = SIGBUS;
    return fake;
  };
  EXPECT_EQ(world.start(plan_of_rounds(1)).end, RunEnd::kDone);
  EXPECT_EQ(arms_of_kind(world, BlockKind::kSoak).size(), 2U);
  EXPECT_THAT(world.open().manifest.notes, Contains(HasSubstr("SIGBUS")));
}

}  // namespace
}  // namespace steplens
