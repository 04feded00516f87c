#include "harness/scheduler.h"

#include <signal.h>

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/fake_site.h"
#include "tests/harness/plan_fixture.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing_support::cpu_baseline;
using testing_support::FakeBlock;
using testing_support::FakeWorld;
using testing_support::vocabulary;

// Baseline, attention=math, optimizer=fused: three arms.
Plan plan_of_rounds(int num_rounds) {
  return make_plan({.baseline = cpu_baseline(),
                    .toggles = parse_toggle_choices("attention=math,optimizer=fused"),
                    .num_rounds = num_rounds},
                   vocabulary());
}

std::vector<std::string> arms_of_kind(const FakeWorld& world, BlockKind kind) {
  std::vector<std::string> arms;
  for (const BlockConfig& block : world.ran) {
    if (block.kind == kind) arms.push_back(block.arm);
  }
  return arms;
}

std::vector<std::string> arms_of_round(const FakeWorld& world, int round_index) {
  std::vector<std::string> arms;
  for (const BlockConfig& block : world.ran) {
    if (block.kind == BlockKind::kThroughput && block.round_index == round_index) {
      arms.push_back(block.arm);
    }
  }
  return arms;
}

// Every slot of every complete round holds exactly one usable block of each arm that is not FAILED.
void expect_whole(const Bundle& bundle) {
  for (const RoundRecord& round : bundle.manifest.rounds) {
    if (!round.is_complete) continue;
    std::map<std::string, int> num_used;
    for (const BlockEntry& entry : bundle.manifest.blocks) {
      if (entry.kind == BlockKind::kThroughput && entry.round_index == round.index &&
          entry.status == BlockStatus::kOk && !entry.is_superseded) {
        ++num_used[entry.arm];
      }
    }
    for (const std::string& arm : round.order) {
      if (bundle.manifest.failed_arms.contains(arm)) continue;
      EXPECT_EQ(num_used[arm], 1) << "round " << round.index << ", " << arm;
    }
  }
  for (const BlockEntry& entry : bundle.manifest.blocks) {
    EXPECT_EQ(sha256_file_hex(block_path(bundle.folder, entry)), entry.sha256);
  }
}

int num_complete(const Bundle& bundle) {
  return static_cast<int>(
      std::ranges::count(bundle.manifest.rounds, true, &RoundRecord::is_complete));
}

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
  const Plan plan = make_plan({.baseline = baseline,
                               .toggles = parse_toggle_choices("accumulation=4"),
                               .num_rounds = 1},
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
  const RunOutcome outcome = world.start(
      make_baseline_plan({.baseline = cpu_baseline(), .num_rounds = 3}, vocabulary()));
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
    return FakeBlock{.status = block.arm == "optimizer=fused" ? BlockStatus::kOom : BlockStatus::kOk};
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
    if (entry.round_index == 1) EXPECT_TRUE(entry.is_superseded) << entry.folder;
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

// ---- Interruption and resume. ----

// Interrupts the block with this number, counted over all that were started.
void interrupt_block(FakeWorld& world, std::size_t number) {
  world.answer = [&world, number](const BlockConfig&, int) {
    return FakeBlock{.is_interrupted = world.ran.size() == number + 1};
  };
}

TEST(RunPlan, ResumesAfterAnInterruptionAnywhere) {
  for (std::size_t number = 0; number < 10; ++number) {
    FakeWorld world;
    interrupt_block(world, number);
    EXPECT_EQ(world.start(plan_of_rounds(2)).end, RunEnd::kInterrupted) << number;
    EXPECT_EQ(world.num_finished, 0);
    EXPECT_EQ(world.open().blocks.size(), number);
    EXPECT_EQ(world.resume(plan_of_rounds(2)).end, RunEnd::kDone);
    const Bundle bundle = world.open();
    EXPECT_EQ(bundle.blocks.size(), 10U);  // 3 pilots, 1 soak, 6: nothing ran twice.
    EXPECT_EQ(bundle.manifest.rounds.size(), 2U);
    EXPECT_EQ(num_complete(bundle), 2);
    expect_whole(bundle);
  }
}

TEST(RunPlan, SoaksAgainAfterAPauseOnly) {
  for (const double pause_s : {30.0, 90.0}) {
    FakeWorld world;
    interrupt_block(world, 6);
    world.start(plan_of_rounds(2));
    world.now_s += pause_s;
    world.resume(plan_of_rounds(2));
    EXPECT_EQ(arms_of_kind(world, BlockKind::kSoak).size(), pause_s > 60 ? 2U : 1U);
    EXPECT_EQ(world.open().manifest.rounds.size(), 2U);  // The open round was completed.
  }
}

TEST(RunPlan, DropsTheOpenRoundAfterARestartOfTheMachine) {
  FakeWorld world;
  interrupt_block(world, 6);  // Two blocks of round 0 are done.
  world.start(plan_of_rounds(2));
  world.boot_id = "boot-2";
  EXPECT_EQ(world.resume(plan_of_rounds(2)).end, RunEnd::kDone);
  const Bundle bundle = world.open();
  ASSERT_EQ(bundle.manifest.rounds.size(), 3U);
  EXPECT_THAT(bundle.manifest.rounds[0].dropped_reason, HasSubstr("started anew"));
  for (const BlockEntry& entry : bundle.manifest.blocks) {
    if (entry.round_index == 0) EXPECT_TRUE(entry.is_superseded);
  }
  EXPECT_EQ(num_complete(bundle), 2);
  expect_whole(bundle);
}

TEST(RunPlan, GoesOnWithAnotherCpuModelAtTheNextRound) {
  FakeWorld world;
  interrupt_block(world, 6);
  world.start(plan_of_rounds(2));
  world.machine.cpu = "Other CPU";
  EXPECT_EQ(world.resume(plan_of_rounds(2)).end, RunEnd::kDone);
  const Manifest manifest = world.open().manifest;
  EXPECT_THAT(manifest.rounds[0].dropped_reason, HasSubstr("another machine"));
  EXPECT_EQ(manifest.rounds[0].machine_id, "Fake CPU");
  EXPECT_EQ(manifest.rounds[1].machine_id, "Other CPU");
  EXPECT_THAT(manifest.notes, Contains(AllOf(HasSubstr("Fake CPU"), HasSubstr("Other CPU"))));
  EXPECT_EQ(arms_of_kind(world, BlockKind::kSoak).size(), 2U);
}

TEST(RunPlan, HasNothingToDoInAFinishedBundle) {
  FakeWorld world;
  world.start(plan_of_rounds(2));
  const std::size_t num_ran = world.ran.size();
  EXPECT_EQ(world.resume(plan_of_rounds(2)).end, RunEnd::kDone);
  EXPECT_EQ(world.ran.size(), num_ran);
}

TEST(RunPlan, AdoptsABlockThatWasPublishedButNotListed) {
  FakeWorld world;
  interrupt_block(world, 8);
  world.start(plan_of_rounds(2));
  // As if killed between the renaming of the block's folder and the rewriting of the manifest.
  Manifest manifest = world.open().manifest;
  const BlockEntry last = manifest.blocks.back();
  manifest.blocks.pop_back();
  write_json_atomically(world.bundle() / "manifest.json", to_json(manifest));
  EXPECT_EQ(world.resume(plan_of_rounds(2)).end, RunEnd::kDone);
  const Bundle bundle = world.open();
  EXPECT_EQ(bundle.blocks.size(), 10U);
  const auto adopted = std::ranges::find(bundle.manifest.blocks, last.folder, &BlockEntry::folder);
  ASSERT_NE(adopted, bundle.manifest.blocks.end());
  EXPECT_EQ(adopted->sha256, last.sha256);
  EXPECT_EQ(adopted->start_s, last.start_s);
  EXPECT_EQ(adopted->round_index, last.round_index);
  expect_whole(bundle);
}

TEST(RunPlan, RemovesWhatAKilledRunLeftHalfWritten) {
  FakeWorld world;
  interrupt_block(world, 5);
  world.start(plan_of_rounds(1));
  write_file_atomically(world.bundle() / "manifest.json.tmp-1", "{");
  fs::create_directory(world.bundle() / "blocks" / ".tmp-0005-x");
  write_file_atomically(world.bundle() / "blocks" / ".tmp-0005-x" / "block.json", "{");
  EXPECT_EQ(world.resume(plan_of_rounds(1)).end, RunEnd::kDone);
  EXPECT_FALSE(fs::exists(world.bundle() / "manifest.json.tmp-1"));
  EXPECT_FALSE(fs::exists(world.bundle() / "blocks" / ".tmp-0005-x"));
}

TEST(RunPlan, RefusesToResumeWhatItCannotTrust) {
  const auto expect_refused = [](std::string_view message, auto damage) {
    FakeWorld world;
    interrupt_block(world, 6);
    world.start(plan_of_rounds(1));
    Plan plan = plan_of_rounds(1);
    damage(world, plan);
    const std::size_t num_ran = world.ran.size();
    EXPECT_THAT([&] { world.resume(plan); },
                ThrowsMessage<ConfigError>(HasSubstr(std::string(message))));
    EXPECT_EQ(world.ran.size(), num_ran);
  };
  const auto change_manifest = [](const FakeWorld& world, std::string_view key,
                                  const nlohmann::json& value) {
    nlohmann::json manifest = read_json(world.bundle() / "manifest.json");
    manifest[std::string(key)] = value;
    write_json_atomically(world.bundle() / "manifest.json", manifest);
  };
  expect_refused("seed", [](FakeWorld&, Plan& plan) { plan.seed = 9; });
  expect_refused("git_sha", [&](FakeWorld& world, Plan&) {
    change_manifest(world, "git_sha", "0123456789012345678901234567890123456789");
  });
  expect_refused("schema_version", [&](FakeWorld& world, Plan&) {
    change_manifest(world, "schema_version", kSchemaVersion + 1);
  });
  expect_refused("SHA-256", [](FakeWorld& world, Plan&) {
    const fs::path path = block_path(world.bundle(), world.open().manifest.blocks[2]);
    write_file_atomically(path, read_file(path) + " ");
  });
  expect_refused("block.json", [](FakeWorld& world, Plan&) {
    fs::remove(block_path(world.bundle(), world.open().manifest.blocks[2]));
  });
  expect_refused("manifest.json", [](FakeWorld& world, Plan&) {
    write_file_atomically(world.bundle() / "manifest.json", "{\"schema_version\": 1");
  });
  expect_refused("data", [](FakeWorld& world, Plan&) {
    write_json_atomically(world.folder() / "data.json", {{"name", "test"}, {"sha256", "other"}});
  });
}

TEST(RunPlan, LetsOneSchedulerAtATimeHaveABundle) {
  FakeWorld world;
  std::string message;
  world.answer = [&](const BlockConfig&, int) {
    if (message.empty()) {
      FakeWorld other;
      RunOptions options = other.options(true);
      options.bundle = world.bundle();
      try {
        other.run_here(plan_of_rounds(1), options);
        message = "was allowed";
      } catch (const ConfigError& error) {
        message = error.what();
      }
    }
    return FakeBlock{};
  };
  world.start(plan_of_rounds(1));
  EXPECT_THAT(message, HasSubstr("another steplens is running this bundle"));
}

TEST(RunPlan, RefusesAFolderThatHoldsSomething) {
  FakeWorld world;
  world.start(plan_of_rounds(1));
  EXPECT_THAT([&] { world.start(plan_of_rounds(1)); },
              ThrowsMessage<ConfigError>(HasSubstr("--resume")));
  RunOptions options = world.options();
  options.bundle = world.folder();
  EXPECT_THAT([&] { world.run_here(plan_of_rounds(1), options); },
              ThrowsMessage<ConfigError>(HasSubstr("not an empty folder")));
}

TEST(RunPlan, LeavesNothingBehindWhenItCannotBegin) {
  FakeWorld world;
  RunOptions options = world.options();
  options.bundle = world.folder() / "new" / "bundle";
  options.data_path = world.folder() / "missing.bin";
  EXPECT_THROW(world.run_here(plan_of_rounds(1), options), ConfigError);
  EXPECT_FALSE(fs::exists(world.folder() / "new"));
  EXPECT_THAT(world.ran, IsEmpty());
}

// ---- Machine. ----

Plan gpu_plan(int num_rounds) {
  RunConfig baseline = cpu_baseline();
  baseline.device = Device::kCuda;
  return make_plan({.baseline = baseline,
                    .toggles = parse_toggle_choices("attention=math"),
                    .num_rounds = num_rounds},
                   vocabulary());
}

TEST(RunPlan, NeedsTheGpuThatIsAskedFor) {
  FakeWorld world;
  EXPECT_THAT([&] { world.start(gpu_plan(1)); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("no GPU"), HasSubstr("no driver"))));
  EXPECT_FALSE(fs::exists(world.bundle()));
}

TEST(RunPlan, RefusesAGpuThatOthersUse) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  world.machine.foreign = {{.pid = 4242}};
  EXPECT_THAT([&] { world.start(gpu_plan(1)); },
              ThrowsMessage<ForeignLoadError>(
                  AllOf(HasSubstr("4242"), HasSubstr("--allow-foreign-load"))));
  EXPECT_FALSE(fs::exists(world.bundle()));
  RunOptions options = world.options();
  options.allows_foreign_load = true;
  EXPECT_EQ(world.run_here(gpu_plan(1), options).end, RunEnd::kDone);
  EXPECT_THAT(world.open().manifest.notes, Contains(HasSubstr("4242")));
}

TEST(RunPlan, TellsBlocksTheirGpu) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}, {.uuid = "GPU-b", .name = "H"}};
  RunOptions options = world.options();
  options.gpu = "GPU-b";
  world.run_here(gpu_plan(1), options);
  for (const BlockConfig& block : world.ran) EXPECT_EQ(block.device_id, "GPU-b");
  EXPECT_EQ(world.open().manifest.gpu_name, "H");
  EXPECT_EQ(world.open().manifest.rounds[0].machine_id, "GPU-b");
}

TEST(RunPlan, GoesOnWithAnotherGpuOfTheSameModelOnly) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  interrupt_block(world, 4);  // 2 pilots, a soak, one block of round 0.
  EXPECT_EQ(world.start(gpu_plan(2)).end, RunEnd::kInterrupted);
  world.machine.gpu_list = {{.uuid = "GPU-c", .name = "L"}};
  EXPECT_THAT([&] { world.resume(gpu_plan(2)); },
              ThrowsMessage<ConfigError>(HasSubstr("gpu_name")));
  world.machine.gpu_list = {{.uuid = "GPU-b", .name = "H"}};
  EXPECT_EQ(world.resume(gpu_plan(2)).end, RunEnd::kDone);
  const Manifest manifest = world.open().manifest;
  EXPECT_THAT(manifest.rounds[0].dropped_reason, HasSubstr("another machine"));
  EXPECT_EQ(manifest.rounds[1].machine_id, "GPU-b");
  EXPECT_THAT(manifest.notes, Contains(AllOf(HasSubstr("GPU-a"), HasSubstr("GPU-b"))));
}

TEST(RunPlan, WaitsUntilTheGpuIsAtItsSoakTemperature) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  world.machine.celsius = 60;
  world.machine.headroom = 10;
  // One block heats the GPU; a second of waiting cools it by one degree.
  world.answer = [&](const BlockConfig& block, int) {
    if (block.arm == "attention=math" && block.round_index == 0) world.machine.celsius = 70;
    return FakeBlock{};
  };
  world.on_sleep = [&] { *world.machine.celsius -= 0.1; };  // Sleeps are sliced to 0.1 s.
  world.start(gpu_plan(2));
  double longest_s = 0;
  for (const auto& folder : fs::directory_iterator(world.bundle() / "blocks")) {
    const nlohmann::json process = read_json(folder.path() / "process.json");
    longest_s = std::max(longest_s, process["thermal_wait_s"].get<double>());
  }
  // From 70 to 63 degrees, looked at once a second.
  EXPECT_NEAR(longest_s, 7, 1.01);
  EXPECT_THAT(world.open().manifest.notes, IsEmpty());
}

TEST(RunPlan, WaitsThreeMinutesAtMostAndSaysSo) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  world.machine.celsius = 60;
  world.machine.headroom = 10;
  world.answer = [&](const BlockConfig& block, int) {
    if (block.kind == BlockKind::kThroughput) world.machine.celsius = 80;
    return FakeBlock{};
  };
  EXPECT_EQ(world.start(gpu_plan(1)).end, RunEnd::kDone);
  EXPECT_THAT(world.open().manifest.notes,
              ElementsAre(AllOf(HasSubstr("180 s"), HasSubstr("80 degrees"), HasSubstr("+20"))));
  // Its own waiting is no pause that calls for another soak.
  EXPECT_EQ(arms_of_kind(world, BlockKind::kSoak).size(), 1U);
}

TEST(RunPlan, DoesNotWaitWithEnoughHeadroom) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  world.machine.celsius = 40;
  world.machine.headroom = 45;
  world.answer = [&](const BlockConfig&, int) {
    *world.machine.celsius += 1;
    return FakeBlock{};
  };
  bool has_slept = false;
  world.on_sleep = [&] { has_slept = true; };
  world.start(gpu_plan(3));
  EXPECT_FALSE(has_slept);
}

TEST(RunPlan, NotesAnotherLoadOnTheCpu) {
  FakeWorld world;
  world.machine.load = 1e6;
  world.start(plan_of_rounds(1));
  EXPECT_THAT(world.open().manifest.notes, ElementsAre(HasSubstr("load average")));
  const nlohmann::json process =
      read_json(world.bundle() / "blocks" / "0000-pilot-baseline" / "process.json");
  EXPECT_EQ(process["load_average"], 1e6);
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
