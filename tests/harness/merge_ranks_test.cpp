#include "harness/trace/merge_ranks.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

// One kernel on a stream, launched by a call in a range, on a thread.
Trace one_kernel(std::int64_t start_unix_ns, std::int64_t clock_offset_ns,
                 const std::string& kernel_name) {
  Trace trace;
  trace.info = {{"start_unix_ns", start_unix_ns}, {"clock_offset_ns", clock_offset_ns}};
  trace.strings = {"", "main", kernel_name, "NVIDIA H200", "power", "W", "forward"};
  trace.threads = {{.tid = 7, .name = 1}};
  trace.devices = {{.name = 3}};
  trace.steps = {{.start_ns = 0, .end_ns = 100}};
  trace.ranges = {{.name = 6}};
  trace.range_instances = {{.start_ns = 1, .end_ns = 9, .range = 0, .thread = 0}};
  trace.apis = {{.start_ns = 2,
                 .end_ns = 3,
                 .name = 6,
                 .correlation_id = 5,
                 .thread = 0,
                 .range_instance = 0}};
  trace.launch_shapes = {{.grid_x = 3}};
  trace.gpu_ops = {{.start_ns = 5,
                    .end_ns = 15,
                    .graph_node_id = 9,
                    .name = 2,
                    .correlation_id = 5,
                    .stream_id = 7,
                    .launch_shape = 0,
                    .range = 0,
                    .step_index = 0}};
  trace.counter_tracks = {{.name = 4, .unit = 5}};
  trace.counter_samples = {{.time_ns = 5, .value = 1, .track = 0}};
  trace.quality = {{"dropped", 2}, {"peak_slabs", 3}};
  return trace;
}

// Rank 1 began 500 ns later by a clock that is 300 ns ahead: 200 ns later by rank 0's.
Trace merged() {
  std::vector<Trace> ranks;
  ranks.push_back(one_kernel(1000, 0, "first"));
  ranks.push_back(one_kernel(1500, 300, "second"));
  return merge_ranks(std::move(ranks));
}

TEST(MergeRanks, PutsAllOnTheClockOfRank0) {
  const Trace trace = merged();
  ASSERT_EQ(trace.gpu_ops.size(), 2u);
  EXPECT_EQ(trace.gpu_ops[0].start_ns, 5);
  EXPECT_EQ(trace.gpu_ops[1].start_ns, 205);
  EXPECT_EQ(trace.gpu_ops[1].end_ns, 215);
  EXPECT_EQ(trace.apis[1].start_ns, 202);
  EXPECT_EQ(trace.range_instances[1].end_ns, 209);
  EXPECT_EQ(trace.counter_samples[1].time_ns, 205);
}

TEST(MergeRanks, TellsRowsOfRanksApart) {
  const Trace trace = merged();
  const GpuOp& op = trace.gpu_ops[1];
  EXPECT_EQ(op.device, 1);
  EXPECT_EQ(op.stream_id, 7u) << "a stream keeps its number on its own device";
  EXPECT_EQ(trace.text(op.name), "second");
  EXPECT_EQ(op.launch_shape, 1u);
  EXPECT_EQ(op.range, 1u);
  EXPECT_EQ(op.correlation_id, 10u);
  EXPECT_EQ(trace.apis[1].correlation_id, 10u);
  EXPECT_EQ(trace.apis[1].thread, 1u);
  EXPECT_EQ(trace.apis[1].range_instance, 1u);
  EXPECT_NE(op.graph_node_id, trace.gpu_ops[0].graph_node_id);
  EXPECT_EQ(trace.range_instances[1].thread, 1u);
  EXPECT_EQ(trace.counter_samples[1].track, 1u);
  EXPECT_EQ(trace.text(trace.counter_tracks[0].name), "power");
  EXPECT_EQ(trace.text(trace.counter_tracks[1].name), "rank 1 power");
  EXPECT_EQ(trace.text(trace.threads[0].name), "rank 0 main");
  EXPECT_EQ(trace.text(trace.threads[1].name), "rank 1 main");
  EXPECT_EQ(trace.text(trace.devices[1].name), "rank 1 NVIDIA H200");
  EXPECT_EQ(trace.steps.size(), 1u);
}

TEST(MergeRanks, OperatorsOfACpuStayOnTheirThread) {
  std::vector<Trace> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Trace trace = one_kernel(0, 0, "aten::mm");
    trace.devices.clear();
    trace.gpu_ops[0].kind = GpuOpKind::kOperator;
    trace.gpu_ops[0].stream_id = 0;  // Row of its thread.
    ranks.push_back(std::move(trace));
  }
  const Trace trace = merge_ranks(std::move(ranks));
  EXPECT_EQ(trace.gpu_ops[1].stream_id, 1u);
  EXPECT_EQ(trace.gpu_ops[1].device, 1);
  EXPECT_EQ(trace.devices.size(), 2u);
}

TEST(MergeRanks, SaysWhoseDevicesAndThreadsTheyAre) {
  const Trace trace = merged();
  EXPECT_EQ(num_ranks(trace), 2);
  EXPECT_EQ(rank_of_device(trace, 0), 0);
  EXPECT_EQ(rank_of_device(trace, 1), 1);
  EXPECT_EQ(rank_of_thread(trace, 0), 0);
  EXPECT_EQ(rank_of_thread(trace, 1), 1);
  EXPECT_EQ(trace.quality.at("dropped"), 4);
  EXPECT_EQ(trace.quality.at("peak_slabs"), 3) << "of several recorders the worst";
}

TEST(MergeRanks, LeavesOneTraceAsItIs) {
  std::vector<Trace> one;
  one.push_back(one_kernel(1000, 0, "first"));
  const Trace trace = merge_ranks(std::move(one));
  EXPECT_EQ(num_ranks(trace), 1);
  EXPECT_EQ(trace.text(trace.threads[0].name), "main");
}

TEST(RankTracePaths, FindsTheFilesOfABlock) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("steplens-merge-{}", ::getpid());
  fs::create_directories(folder);
  for (const char* name : {"trace.slt", "trace.rank1.slt", "trace.rank2.slt", "trace.rank4.slt"}) {
    std::ofstream(folder / name) << "x";
  }
  EXPECT_THAT(
      rank_trace_paths(folder / "trace.slt"),
      ElementsAre(folder / "trace.slt", folder / "trace.rank1.slt", folder / "trace.rank2.slt"));
  EXPECT_THAT(rank_trace_paths(folder / "mine.slt"), ElementsAre(folder / "mine.slt"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace steplens
