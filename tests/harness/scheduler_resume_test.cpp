#include <algorithm>

#include "tests/harness/scheduler_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scheduler.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing_support::arms_of_kind;
using testing_support::expect_whole;
using testing_support::FakeBlock;
using testing_support::FakeWorld;
using testing_support::interrupt_block;
using testing_support::num_complete;
using testing_support::plan_of_rounds;

// ---- Interruption and resume. ----

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
    if (entry.round_index == 0) {
      EXPECT_TRUE(entry.is_superseded);
    }
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

}  // namespace
}  // namespace steplens
