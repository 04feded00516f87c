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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing_support::arms_of_kind;
using testing_support::FakeBlock;
using testing_support::FakeWorld;
using testing_support::gpu_plan;
using testing_support::interrupt_block;
using testing_support::plan_of_rounds;

// ---- Machine. ----

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
  EXPECT_THAT(
      [&] { world.start(gpu_plan(1)); },
      ThrowsMessage<ForeignLoadError>(AllOf(HasSubstr("4242"), HasSubstr("--allow-foreign-load"))));
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

TEST(RunPlan, GivesEachRankItsGpu) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}, {.uuid = "GPU-b", .name = "H"}};
  Plan plan = gpu_plan(1);
  plan.baseline.world_size = 2;
  for (Arm& arm : plan.arms) arm.config.world_size = 2;
  EXPECT_EQ(world.start(plan).end, RunEnd::kDone);
  EXPECT_EQ(world.open().manifest.world_size, 2);
  ASSERT_FALSE(world.worlds.empty());
  EXPECT_EQ(world.worlds.size(), world.ran.size()) << "no block ran alone";
  for (const std::vector<ProcessSpec>& ranks : world.worlds) {
    ASSERT_EQ(ranks.size(), 2u);
    EXPECT_THAT(ranks[0].environment, Contains(testing::Pair("CUDA_VISIBLE_DEVICES", "GPU-a")));
    EXPECT_THAT(ranks[1].environment, Contains(testing::Pair("CUDA_VISIBLE_DEVICES", "GPU-b")));
  }
  EXPECT_EQ(world.ran.front().world_size, 2);

  FakeWorld smaller;
  smaller.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  EXPECT_THAT([&] { smaller.start(plan); },
              ThrowsMessage<ConfigError>(HasSubstr("this machine has 1")));
  EXPECT_FALSE(fs::exists(smaller.bundle()));
}

TEST(RunPlan, NamesTheRankThatRanOutOfMemory) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}, {.uuid = "GPU-b", .name = "H"}};
  Plan plan = gpu_plan(1);
  plan.baseline.world_size = 2;
  for (Arm& arm : plan.arms) arm.config.world_size = 2;
  world.answer = [](const BlockConfig& block, int) {
    if (block.arm == "baseline") return FakeBlock{};
    BlockRecord record{
        .status = BlockStatus::kOom, .reason = "3 GiB more", .rank = 1, .config = block.config};
    write_json_atomically(block.output_folder / "block.rank1.json", to_json(record));
    return FakeBlock{.signal = 15};  // Rank 0 was stopped.
  };
  world.start(plan);
  const Bundle bundle = world.open();
  EXPECT_EQ(bundle.manifest.failed_arms.at("attention=math").get<std::string>(),
            "oom, 2 times: rank 1: 3 GiB more");
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

}  // namespace
}  // namespace steplens
