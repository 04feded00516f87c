#include "tests/harness/scheduler_fixture.h"
#include <gmock/gmock.h>

#include "harness/traces.h"

namespace steplens {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Plan traced_plan(int num_rounds) {
  Plan plan = plan_of_rounds(num_rounds);
  plan.num_trace_steps = 5;
  return plan;
}

TEST(RunTraces, FollowTheRoundsOneAnArm) {
  FakeWorld world;
  const RunOutcome outcome = world.start(traced_plan(2));
  EXPECT_EQ(outcome.end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kTrace),
              ElementsAre("baseline", "attention=math", "optimizer=fused"));
  for (std::size_t i = 0; i < world.ran.size(); ++i) {
    const BlockConfig& block = world.ran[i];
    if (block.kind != BlockKind::kTrace) continue;
    EXPECT_GE(i + 3, world.ran.size()) << "traces come last";
    EXPECT_EQ(block.round_index, -1);
    EXPECT_EQ(block.num_warmup_steps, 12);
    EXPECT_EQ(block.num_measured_steps, 5);
  }
  EXPECT_EQ(world.open().manifest.stop_reason, "planned rounds done");
}

TEST(RunTraces, AreLeftOutWhereNoneAreWanted) {
  FakeWorld world;
  world.start(plan_of_rounds(1));
  EXPECT_THAT(arms_of_kind(world, BlockKind::kTrace), IsEmpty());
}

TEST(RunTraces, FailNoArm) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    return FakeBlock{.status = block.kind == BlockKind::kTrace && block.arm == "attention=math"
                                   ? BlockStatus::kUnsupported
                                   : BlockStatus::kOk};
  };
  EXPECT_EQ(world.start(traced_plan(1)).end, RunEnd::kDone);
  const Manifest manifest = world.open().manifest;
  EXPECT_TRUE(manifest.failed_arms.empty()) << manifest.failed_arms.dump();
  EXPECT_THAT(manifest.notes, ElementsAre(HasSubstr("There is no trace of attention=math: ")));
  // Resumed or not, it is said once.
  world.resume(traced_plan(1));
  EXPECT_EQ(world.open().manifest.notes.size(), 1U);
}

TEST(RunTraces, GoOnWhereTheyWereInterrupted) {
  FakeWorld world;
  const std::size_t num_before = 3 + 1 + 3 + 1;  // Pilots, soak, a round, the first trace.
  interrupt_block(world, num_before);
  EXPECT_EQ(world.start(traced_plan(1)).end, RunEnd::kInterrupted);
  world.answer = [](const BlockConfig&, int) { return FakeBlock{}; };
  world.ran.clear();
  EXPECT_EQ(world.resume(traced_plan(1)).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kTrace),
              ElementsAre("attention=math", "optimizer=fused"));
  EXPECT_THAT(arms_of_kind(world, BlockKind::kThroughput), IsEmpty());
}

TEST(RunTraces, StopAtTheTimeLimitAndCanBeResumed) {
  FakeWorld world;
  RunOptions options = world.options();
  options.max_seconds = 3 * 10 + 10 + 3 * 10 + 12;  // All but two of the traces.
  const RunOutcome outcome = world.run_here(traced_plan(1), options);
  EXPECT_EQ(outcome.end, RunEnd::kTimeLimit);
  EXPECT_THAT(world.open().manifest.stop_reason, HasSubstr("before all traces were made"));
  EXPECT_THAT(arms_of_kind(world, BlockKind::kTrace), ElementsAre("baseline"));
  EXPECT_EQ(world.resume(traced_plan(1)).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kTrace),
              ElementsAre("baseline", "attention=math", "optimizer=fused"));
}

TEST(RunTraces, RefuseToResumeWithAnotherNumberOfSteps) {
  FakeWorld world;
  interrupt_block(world, 4);
  world.start(traced_plan(1));
  EXPECT_THROW(world.resume(plan_of_rounds(1)), ConfigError);
}

Plan plan_with_memory(int num_rounds) {
  Plan plan = traced_plan(num_rounds);
  plan.num_memory_steps = 3;
  return plan;
}

TEST(RunTraces, AreFollowedByAMemoryBlockOfEachArm) {
  FakeWorld world;
  EXPECT_EQ(world.start(plan_with_memory(1)).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kMemory),
              ElementsAre("baseline", "attention=math", "optimizer=fused"));
  ASSERT_GE(world.ran.size(), 6U);
  for (std::size_t i = world.ran.size() - 6; i < world.ran.size(); ++i) {
    const bool is_memory = i >= world.ran.size() - 3;
    EXPECT_EQ(world.ran[i].kind, is_memory ? BlockKind::kMemory : BlockKind::kTrace);
    EXPECT_EQ(world.ran[i].num_measured_steps, is_memory ? 3 : 5);
  }
}

TEST(RunTraces, MakeMemoryBlocksWithoutTracesToo) {
  FakeWorld world;
  Plan plan = plan_of_rounds(1);
  plan.num_memory_steps = 3;
  EXPECT_EQ(world.start(plan).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kTrace), IsEmpty());
  EXPECT_THAT(arms_of_kind(world, BlockKind::kMemory),
              ElementsAre("baseline", "attention=math", "optimizer=fused"));
}

TEST(RunTraces, SayWhichMemoryAccountIsMissing) {
  FakeWorld world;
  world.answer = [](const BlockConfig& block, int) {
    return FakeBlock{.status = block.kind == BlockKind::kMemory && block.arm == "attention=math"
                                   ? BlockStatus::kOom
                                   : BlockStatus::kOk};
  };
  EXPECT_EQ(world.start(plan_with_memory(1)).end, RunEnd::kDone);
  const Manifest manifest = world.open().manifest;
  EXPECT_TRUE(manifest.failed_arms.empty()) << manifest.failed_arms.dump();
  EXPECT_THAT(manifest.notes,
              ElementsAre(HasSubstr("There is no memory account of attention=math: ")));
}

TEST(RunTraces, RefuseToResumeWithoutMemoryBlocks) {
  FakeWorld world;
  interrupt_block(world, 4);
  world.start(plan_with_memory(1));
  EXPECT_THROW(world.resume(traced_plan(1)), ConfigError);
}

Plan plan_with_counters(Plan plan) {
  plan.num_counter_steps = 4;
  return plan;
}

TEST(RunTraces, EndWithACountersBlockOfEachArmOnAGpu) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  Plan plan = plan_with_counters(gpu_plan(1));
  plan.num_memory_steps = 3;
  EXPECT_EQ(world.start(plan).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kCounters), ElementsAre("baseline", "attention=math"));
  EXPECT_EQ(world.ran.back().kind, BlockKind::kCounters);
  EXPECT_EQ(world.ran.back().num_measured_steps, 4);
  EXPECT_THAT(world.open().manifest.notes, IsEmpty());
}

TEST(RunTraces, DoNotAskEveryArmForCountersThatTheMachineRefuses) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  world.answer = [](const BlockConfig& block, int) {
    FakeBlock fake;
    if (block.kind == BlockKind::kCounters) fake.counters_absent_reason = "no permission";
    return fake;
  };
  EXPECT_EQ(world.start(plan_with_counters(gpu_plan(1))).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kCounters), ElementsAre("baseline"));
  EXPECT_TRUE(world.open().manifest.failed_arms.empty());
  EXPECT_THAT(world.open().manifest.notes,
              ElementsAre("Hardware counters are not available: no permission."));
}

TEST(RunTraces, SayThatACpuHasNoCounters) {
  FakeWorld world;
  EXPECT_EQ(world.start(plan_with_counters(plan_of_rounds(1))).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kCounters), IsEmpty());
  EXPECT_THAT(world.open().manifest.notes, ElementsAre(HasSubstr("not applicable on a CPU")));
}

TEST(RunTraces, RefuseToResumeWithoutCounters) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  interrupt_block(world, 4);
  world.start(plan_with_counters(gpu_plan(1)));
  EXPECT_THROW(world.resume(gpu_plan(1)), ConfigError);
}

TEST(RunTraces, ShowWholeGraphsWhereThatIsAskedFor) {
  FakeWorld world;
  world.machine.gpu_list = {{.uuid = "GPU-a", .name = "H"}};
  Plan plan = gpu_plan(1);
  plan.num_trace_steps = 5;
  plan.num_graph_trace_steps = 2;
  EXPECT_EQ(world.start(plan).end, RunEnd::kDone);
  EXPECT_THAT(arms_of_kind(world, BlockKind::kGraphTrace),
              ElementsAre("baseline", "attention=math"));
  EXPECT_EQ(world.ran.back().kind, BlockKind::kGraphTrace);
  EXPECT_EQ(world.ran.back().num_measured_steps, 2);
}

}  // namespace
}  // namespace steplens
