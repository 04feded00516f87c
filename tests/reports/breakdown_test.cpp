#include "reports/breakdown/breakdown.h"

#include <random>

#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using ::testing::DoubleEq;
using ::testing::Optional;

constexpr std::string_view kForward = "step/micro-step/forward";
constexpr std::string_view kAttention = "step/micro-step/forward/block 0/attention";
constexpr std::string_view kMlp = "step/micro-step/forward/block 1/mlp";

// nullptr if there is no such group.
const UsageGroup* find(const std::vector<UsageGroup>& groups, std::string_view key) {
  for (const UsageGroup& group : groups) {
    if (group.key == key) return &group;
  }
  return nullptr;
}

std::int64_t exclusive_ns(const std::vector<UsageGroup>& groups, std::string_view key) {
  const UsageGroup* group = find(groups, key);
  return group == nullptr ? -1 : group->total.exclusive_ns;
}

std::int64_t idle_ns(const StepTimes& times, IdleClass idle) {
  return times.idle_by_class_ns[static_cast<std::size_t>(idle)];
}

TEST(ComputeBreakdown, TilesTheWindowWithStepsOfTheDevice) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 100, 150, 0, kMlp);
  builder.kernel("aten::mm", 160, 190, 0, kMlp);
  builder.kernel("aten::mm", 200, 260, 1, kMlp);
  builder.kernel("aten::mm", 290, 300, 1, kMlp);
  builder.kernel("aten::mm", 330, 340, 2, kMlp);
  builder.kernel("aten::mm", 341, 350, 2, kMlp);
  const Breakdown breakdown = compute_breakdown(builder.trace());
  ASSERT_EQ(breakdown.steps.size(), 3);
  EXPECT_EQ(breakdown.window, (Interval{100, 350}));
  EXPECT_EQ(breakdown.steps[0].device, (Interval{100, 200}));
  EXPECT_EQ(breakdown.steps[1].device, (Interval{200, 330}));
  EXPECT_EQ(breakdown.steps[2].device, (Interval{330, 350}));
  EXPECT_EQ(breakdown.steps[0].times.idle_ns, 20);
  EXPECT_EQ(breakdown.steps[1].times.idle_ns, 60);
  // The last one is open: nobody knows how long the device would have waited behind it.
  EXPECT_TRUE(breakdown.steps[1].is_closed);
  EXPECT_FALSE(breakdown.steps[2].is_closed);
  EXPECT_EQ(breakdown.num_counted_steps, 2);
  EXPECT_DOUBLE_EQ(breakdown.mean_step_ns(), 115);
  EXPECT_EQ(breakdown.total.num_kernels, 4);
  EXPECT_THAT(breakdown.busy_ratio(), Optional(DoubleEq(150.0 / 230.0)));
  EXPECT_TRUE(breakdown.is_consistent());
}

TEST(ComputeBreakdown, AFenceClosesTheLastStep) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 100, 200, 0, kMlp);
  builder.kernel("aten::mm", 200, 260, 1, kMlp);
  builder.open("fence", 205, 300);
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_EQ(breakdown.window, (Interval{100, 300}));
  EXPECT_TRUE(breakdown.steps[1].is_closed);
  EXPECT_EQ(breakdown.num_counted_steps, 2);
  EXPECT_EQ(breakdown.total.step_ns, 200);
  EXPECT_EQ(breakdown.total.idle_ns, 40);
}

TEST(ComputeBreakdown, ACopyThatRunsAheadOpensNoStep) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 100, 200, 0, kMlp);
  builder.copy(CopyKind::kHostToDevice, 120, 140, 1, "data");  // For step 1, during step 0.
  builder.kernel("aten::mm", 210, 300, 1, kMlp);
  builder.kernel("aten::mm", 310, 400, 2, kMlp);
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_EQ(breakdown.steps[1].device, (Interval{210, 310}));
  EXPECT_EQ(breakdown.steps[0].times.copy_ns, 20);
  EXPECT_EQ(breakdown.steps[0].times.copy_exposed_ns, 0);
  EXPECT_EQ(breakdown.steps[0].times.copy_overlapped_ns(), 20);
  EXPECT_EQ(breakdown.steps[0].times.num_copies, 1);
}

TEST(ComputeBreakdown, AStepWithoutOperationsHasNoLength) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 100, 150, 1, kMlp);  // Step 0 ran before the window.
  builder.kernel("aten::mm", 200, 250, 3, kMlp);
  builder.kernel("aten::mm", 300, 350, 4, kMlp);
  const Breakdown breakdown = compute_breakdown(builder.trace());
  ASSERT_EQ(breakdown.steps.size(), 4);
  EXPECT_EQ(breakdown.steps[0].device, (Interval{100, 200}));
  EXPECT_EQ(breakdown.steps[1].device, (Interval{200, 200}));
  EXPECT_EQ(breakdown.steps[2].device, (Interval{200, 300}));
  EXPECT_EQ(breakdown.num_idle_steps, 2);
  EXPECT_DOUBLE_EQ(breakdown.mean_step_ns(), 200.0 / 3);
}

TEST(ComputeBreakdown, WithoutStepsTheWindowIsOne) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 100, 150, -1);
  builder.kernel("aten::mm", 170, 200, -1);
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_FALSE(breakdown.has_steps);
  EXPECT_EQ(breakdown.window, (Interval{100, 200}));
  EXPECT_EQ(breakdown.num_counted_steps, 1);
  EXPECT_EQ(breakdown.total.idle_ns, 20);
}

TEST(ComputeBreakdown, OfNothingHasNoSteps) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 0, 0, 0);
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_TRUE(breakdown.steps.empty());
  EXPECT_EQ(breakdown.num_zero_timestamps, 1);
  EXPECT_EQ(breakdown.coverage_ratio(), std::nullopt);
  EXPECT_EQ(breakdown.busy_ratio(), std::nullopt);
  EXPECT_EQ(breakdown.mean_step_ns(), 0);
  EXPECT_TRUE(to_json(breakdown).at("busy_ratio").is_null());
}

// kineto #136: the sum of durations exceeded the wall time when streams overlap.
TEST(ComputeBreakdown, CountsOverlappingKernelsOnce) {
  TraceBuilder builder;
  builder.kernel("aten::mm", 0, 100, 0, kMlp).stream_id = 7;
  builder.kernel("aten::sum", 20, 120, 0, kMlp).stream_id = 8;
  builder.kernel("aten::add", 50, 90, 0, kMlp).stream_id = 9;
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_EQ(breakdown.total.step_ns, 120);
  EXPECT_EQ(breakdown.total.compute_ns, 120);
  EXPECT_EQ(breakdown.total.idle_ns, 0);
  // Whoever began first has the moment.
  EXPECT_EQ(exclusive_ns(breakdown.categories, "gemm"), 100);
  EXPECT_EQ(exclusive_ns(breakdown.categories, "reduction"), 20);
  EXPECT_EQ(exclusive_ns(breakdown.categories, "elementwise"), 0);
  EXPECT_EQ(find(breakdown.categories, "elementwise")->total.summed_ns, 40);
  EXPECT_EQ(breakdown.operation_ns, 240);
}

// perfetto #4280: with programmatic dependent launch the next kernel of a stream begins early.
TEST(ComputeBreakdown, KeepsKernelsThatOverlapOnOneStream) {
  TraceBuilder builder;
  builder.kernel("nvjet_a", 0, 100, 0, kMlp);
  builder.kernel("flash_fwd", 95, 200, 0, kAttention);
  builder.kernel("nvjet_b", 195, 300, 0, kMlp);
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_EQ(breakdown.total.num_kernels, 3);
  EXPECT_EQ(breakdown.total.compute_ns, 300);
  EXPECT_EQ(exclusive_ns(breakdown.kernels, "nvjet_a"), 100);
  EXPECT_EQ(exclusive_ns(breakdown.kernels, "flash_fwd"), 100);
  EXPECT_EQ(exclusive_ns(breakdown.kernels, "nvjet_b"), 100);
}

TEST(ComputeBreakdown, SplitsCommunicationIntoHiddenAndExposed) {
  TraceBuilder builder;
  builder.kernel("nvjet_a", 0, 100, 0, kMlp);
  builder.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 60, 180, 0).stream_id = 21;
  builder.kernel("nvjet_b", 120, 140, 0, kMlp);
  builder.copy(CopyKind::kHostToDevice, 90, 200, 0, "data");
  const Breakdown breakdown = compute_breakdown(builder.trace());
  const StepTimes& times = breakdown.total;
  EXPECT_EQ(times.step_ns, 200);
  EXPECT_EQ(times.compute_ns, 120);
  EXPECT_EQ(times.communication_ns, 120);
  EXPECT_EQ(times.communication_exposed_ns, 60);  // [100, 120) and [140, 180).
  EXPECT_EQ(times.communication_overlapped_ns(), 60);
  EXPECT_EQ(times.copy_ns, 110);
  EXPECT_EQ(times.copy_exposed_ns, 20);  // [180, 200).
  EXPECT_EQ(times.idle_ns, 0);
  EXPECT_EQ(exclusive_ns(breakdown.categories, "communication"), 60);
  EXPECT_EQ(exclusive_ns(breakdown.categories, "copy"), 20);
  EXPECT_EQ(exclusive_ns(breakdown.kernels, "copy h2d"), 20);
}

TEST(ComputeBreakdown, GroupsByPhaseModuleAndName) {
  TraceBuilder builder;
  builder.kernel("nvjet_a", 0, 30, 0, kMlp);
  builder.kernel("nvjet_a", 30, 50, 0, "step/micro-step/forward/block 2/mlp");
  GpuOp& backward = builder.kernel("nvjet_b", 50, 90, 0, kMlp);
  backward.phase = Phase::kBackward;
  backward.attribution = Attribution::kSequence;
  builder.kernel("multi_tensor_apply_kernel", 90, 100, 0, "step/optimizer");
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_EQ(exclusive_ns(breakdown.phases, "forward"), 50);
  EXPECT_EQ(exclusive_ns(breakdown.phases, "backward"), 40);
  EXPECT_EQ(exclusive_ns(breakdown.phases, "optimizer"), 10);
  EXPECT_EQ(exclusive_ns(breakdown.modules, "block 1/mlp"), 70);
  EXPECT_EQ(exclusive_ns(breakdown.modules, "block 2/mlp"), 20);
  EXPECT_EQ(exclusive_ns(breakdown.modules, "optimizer"), 10) << "a phase without modules is one";
  EXPECT_EQ(find(breakdown.modules, "none"), nullptr);
  EXPECT_EQ(find(breakdown.modules, "block 0/attention"), nullptr);
  const UsageGroup* mlp = find(breakdown.module_kinds, "block/mlp");
  ASSERT_NE(mlp, nullptr);
  EXPECT_EQ(mlp->total.num_operations, 3);
  EXPECT_EQ(mlp->exclusive_by_phase_ns[static_cast<std::size_t>(Phase::kForward)], 50);
  EXPECT_EQ(mlp->exclusive_by_phase_ns[static_cast<std::size_t>(Phase::kBackward)], 40);
  EXPECT_EQ(breakdown.module_kinds.front().key, "block/mlp");
  EXPECT_EQ(find(breakdown.kernels, "nvjet_a")->category, KernelCategory::kGemm);
  EXPECT_EQ(find(breakdown.kernels, "nvjet_a")->total.num_operations, 2);
  EXPECT_THAT(breakdown.coverage_ratio(), Optional(DoubleEq(1)));
}

TEST(ComputeBreakdown, OnlyRangesCover) {
  TraceBuilder builder;
  builder.kernel("nvjet_a", 0, 90, 0, kMlp);
  const Breakdown before = compute_breakdown(builder.trace());
  EXPECT_THAT(before.coverage_ratio(), Optional(DoubleEq(1)));
  // Its name says what it is, but not where it belongs.
  builder.kernel("flash_fwd_kernel", 90, 100, -1);
  const Breakdown after = compute_breakdown(builder.trace());
  EXPECT_EQ(after.window, before.window) << "it belongs to no step, so it opens and ends none";
  EXPECT_EQ(after.num_outside_window, 1);

  builder.kernel("nvjet_a", 100, 110, 0, kMlp);
  const Breakdown within = compute_breakdown(builder.trace());
  EXPECT_THAT(within.coverage_ratio(), Optional(DoubleEq(100.0 / 110)));
  EXPECT_EQ(within.num_unattributed, 1);
  // A phase alone is not enough in forward and backward.
  builder.kernel("nvjet_a", 110, 200, 0, kForward);
  EXPECT_THAT(compute_breakdown(builder.trace()).coverage_ratio(), Optional(DoubleEq(0.5)));
}

TEST(ComputeBreakdown, CommunicationNeedsNoModule) {
  TraceBuilder builder;
  builder.kernel("nvjet_a", 0, 100, 0, kMlp);
  builder.kernel("ncclDevKernel_AllReduce", 100, 200, 0, "step/micro-step/backward");
  EXPECT_THAT(compute_breakdown(builder.trace()).coverage_ratio(), Optional(DoubleEq(1)));
}

// kineto #109, #646: kernels at time 0 and with negative durations.
TEST(ComputeBreakdown, LeavesOutZeroAndReversedTimestamps) {
  TraceBuilder builder;
  builder.trace().info["start_unix_ns"] = 1'700'000'000'000'000'000;
  builder.kernel("nvjet_a", 100, 200, 0, kMlp);
  builder.kernel("nvjet_a", 0, 0, 0, kMlp);
  builder.kernel("nvjet_a", -1'700'000'000'000'000'000, -1'700'000'000'000'000'000, 0, kMlp);
  builder.kernel("nvjet_a", 150, 140, 0, kMlp);
  builder.kernel("nvjet_a", 150, -1'700'000'000'000'000'000, 0, kMlp);  // Flushed while it ran.
  builder.kernel("nvjet_a", 150, 150, 0, kMlp);  // Shorter than the clock can see.
  builder.kernel("nvjet_a", 110, 120, 0, kMlp).device = 1;
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_EQ(breakdown.num_zero_timestamps, 2);
  EXPECT_EQ(breakdown.num_end_before_start, 2);
  EXPECT_EQ(breakdown.num_other_devices, 1);
  EXPECT_EQ(breakdown.num_operations, 2);
  EXPECT_EQ(breakdown.total.num_kernels, 2);
  EXPECT_EQ(breakdown.window, (Interval{100, 200}));
}

TEST(ComputeBreakdown, CountsWholeGraphsOnlyWithoutTheirKernels) {
  TraceBuilder builder;
  builder.kernel("graph", 0, 100, 0, kMlp).kind = GpuOpKind::kGraph;
  EXPECT_EQ(compute_breakdown(builder.trace()).total.compute_ns, 100);
  EXPECT_EQ(compute_breakdown(builder.trace()).coverage_ratio(), std::nullopt);  // Who knows.
  builder.kernel("nvjet_a", 10, 60, 0, kMlp).graph_node_id = 5;
  EXPECT_EQ(compute_breakdown(builder.trace()).total.compute_ns, 50);
  EXPECT_THAT(compute_breakdown(builder.trace()).coverage_ratio(), Optional(DoubleEq(1)));
}

TEST(ComputeBreakdown, ReadsTheOperatorsOfACpuArm) {
  TraceBuilder builder;
  for (const std::int32_t step : {0, 1}) {
    const std::int64_t t = std::int64_t{1000} * step;
    builder.open("data", t - 100, t);
    builder.open("step", t, t + 880);
    builder.cpu_operator("aten::mm", t, t + 500, step, kMlp);
    builder.cpu_operator("aten::_fused_adamw_", t + 520, t + 880, step, "step/optimizer");
  }
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_EQ(breakdown.num_counted_steps, 1);
  const StepTimes& times = breakdown.steps.front().times;
  EXPECT_EQ(times.step_ns, 1000);
  EXPECT_EQ(times.compute_ns, 860);
  EXPECT_EQ(idle_ns(times, IdleClass::kDataWait), 100);
  EXPECT_EQ(idle_ns(times, IdleClass::kLateLaunch), 40);  // The host's own time, twice 20.
  EXPECT_EQ(exclusive_ns(breakdown.categories, "optimizer"), 360);
  EXPECT_EQ(breakdown.num_without_launch, 0);
  EXPECT_THAT(breakdown.coverage_ratio(), Optional(DoubleEq(1)));
}

TEST(ComputeBreakdown, CarriesTheTracesQuality) {
  TraceBuilder builder;
  builder.kernel("nvjet_a", 0, 100, 0, kMlp);
  EXPECT_FALSE(compute_breakdown(builder.trace()).has_lost_data);
  builder.trace().quality[std::string(quality::kDropped)] = 3;
  const Breakdown breakdown = compute_breakdown(builder.trace());
  EXPECT_TRUE(breakdown.has_lost_data);
  EXPECT_EQ(to_json(breakdown).at("quality").at("dropped"), 3);
}

// Any trace: the parts sum to the step, whatever overlaps, and a bitmap agrees about the unions.
TEST(ComputeBreakdown, AddsUpForAnyTrace) {
  constexpr std::array<std::string_view, 4> kNames = {"aten::mm", "flash_fwd", "ncclDevKernel",
                                                      "spin_kernel"};
  std::mt19937 random(2);
  const auto draw = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  for (int repeat = 0; repeat < 500; ++repeat) {
    TraceBuilder builder;
    constexpr int kSpan = 300;
    const int num_ops = 1 + draw(25);
    for (int i = 0; i < num_ops; ++i) {
      const int start = 1 + draw(kSpan);
      const int end = start + draw(40);
      const std::int32_t step = draw(5) - 1;
      if (draw(5) == 0) {
        builder.copy(CopyKind::kDeviceToHost, start, end, step, draw(2) == 0 ? "data" : "");
      } else {
        builder.kernel(kNames[static_cast<std::size_t>(draw(4))], start, end, step,
                       draw(2) == 0 ? kMlp : "");
      }
      if (draw(2) == 0) {
        const int launch = start - draw(30);
        builder.launched(launch, launch + draw(10));
      }
      if (draw(4) == 0) builder.api("cudaMalloc", start - 20, start - 5);
      if (draw(4) == 0) builder.api("cudaStreamSynchronize", start - 40, start - 15);
      if (draw(4) == 0) builder.open("data", start - 10, start);
      if (draw(9) == 0) builder.open("flush", start - 3, start, "main", kProfilerDomainName);
    }
    const Trace& trace = builder.trace();
    const Breakdown breakdown = compute_breakdown(trace);
    ASSERT_EQ(breakdown.max_imbalance_ns, 0);
    if (breakdown.steps.empty()) continue;
    std::int64_t covered_ns = 0;
    std::int64_t next_ns = breakdown.window.start_ns;
    for (std::size_t i = 0; i < breakdown.steps.size(); ++i) {
      const StepBreakdown& step = breakdown.steps[i];
      ASSERT_EQ(step.device.start_ns, next_ns);
      next_ns = step.device.end_ns;
      std::int64_t busy_ns = 0;
      for (std::int64_t t = step.device.start_ns; t < step.device.end_ns; ++t) {
        busy_ns += std::ranges::any_of(
            trace.gpu_ops, [&](const GpuOp& op) { return op.start_ns <= t && t < op.end_ns; });
      }
      ASSERT_EQ(step.times.busy_ns(), busy_ns);
      ASSERT_LE(step.times.busy_ns(), step.times.step_ns);
      covered_ns += step.times.step_ns;
      for (const auto* groups : {&breakdown.phases, &breakdown.modules, &breakdown.module_kinds,
                                 &breakdown.categories, &breakdown.kernels}) {
        std::int64_t sum_ns = 0;
        for (const UsageGroup& group : *groups) sum_ns += group.by_step[i].exclusive_ns;
        ASSERT_EQ(sum_ns, step.times.busy_ns());
      }
    }
    ASSERT_EQ(next_ns, breakdown.window.end_ns);
    ASSERT_EQ(covered_ns, breakdown.window.length_ns());
  }
}

TEST(ToJson, OfABreakdownHasStableKeys) {
  TraceBuilder builder;
  builder.kernel("nvjet_a", 0, 60, 0, kMlp);
  builder.kernel("nvjet_a", 100, 160, 1, kMlp);
  const nlohmann::json json = to_json(compute_breakdown(builder.trace()));
  EXPECT_EQ(json.at("step_ns"), 100);
  EXPECT_EQ(json.at("compute_ns"), 60);
  EXPECT_EQ(json.at("idle_ns"), 40);
  EXPECT_EQ(json.at("idle").at("unknown_ns"), 40);
  EXPECT_EQ(json.at("kernel_patterns_version"), kKernelPatternsVersion);
  EXPECT_EQ(json.at("categories").at(0).at("name"), "gemm");
  EXPECT_EQ(json.at("categories").at(0).at("exclusive_by_step_ns"), nlohmann::json({60, 60}));
  EXPECT_EQ(json.at("kernels").at(0).at("category"), "gemm");
  EXPECT_EQ(json.at("module_kinds").at(0).at("exclusive_by_phase").at("forward_ns"), 60);
  EXPECT_EQ(json.at("steps").at(1).at("is_closed"), false);
  for (const std::string_view key :
       {"window_ns", "communication_exposed_ns", "communication_overlapped_ns", "copy_exposed_ns",
        "busy_ratio", "coverage_ratio", "num_kernels", "is_consistent", "counts", "phases"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

}  // namespace
}  // namespace steplens
