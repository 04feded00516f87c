// libsteplens_inject.so in a program that replays two graphs in turn, on a real GPU.

#include <filesystem>
#include <string>

#include "tests/kernels/device_tensor.h"
#include "tests/profilers/temporary_folder.h"
#include <gtest/gtest.h>

#include "harness/process.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_request.h"

namespace steplens {
namespace {

std::string path_of(const Trace& trace, std::uint32_t range) {
  const Range& node = trace.ranges[range];
  const std::string name = trace.text(node.name);
  return node.parent == kNoRow ? name : path_of(trace, node.parent) + "/" + name;
}

// The trace of four steps of the program.
void trace_graphs(const char* argument, Trace& trace) {
  const FolderOfFiles folder;
  // The two captures open ranges "step" too: steps 0 and 1.
  const TraceRequest request{.path = folder.path() / "trace.slt", .first_step = 2, .num_steps = 4};
  ProcessSpec spec{.command = {STEPLENS_TRACED_GRAPHS_PATH, argument}, .timeout_s = 60};
  for (const auto& [name, value] : environment_for(request, STEPLENS_INJECT_PATH)) {
    spec.environment.emplace_back(name, value);
  }
  const ProcessResult result = run_process(spec);
  ASSERT_EQ(result.exit_code, 0) << testing::PrintToString(result.last_lines);

  trace = read_trace(request.path);
  EXPECT_FALSE(has_lost_data(trace.quality));
  ASSERT_EQ(trace.steps.size(), 4u);
}

// https://github.com/pytorch/pytorch/issues/186626: only the last graph had its names.
TEST(TracedGraphs, GivesEachNodeOfGraphsInTurnTheRangeOfItsOwnCapture) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  Trace trace;
  ASSERT_NO_FATAL_FAILURE(trace_graphs("as captured", trace));
  ASSERT_EQ(trace.gpu_ops.size(), 12u);
  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    const GpuOp& op = trace.gpu_ops[i];
    SCOPED_TRACE(i);
    EXPECT_EQ(op.step_index, static_cast<std::int32_t>(i / 3));
    EXPECT_EQ(op.attribution, Attribution::kGraphNode);
    const auto duration_us = static_cast<double>(op.end_ns - op.start_ns) / 1000;
    const char* paths[] = {"step/forward/first", "step/forward/second", "step/backward/first"};
    const double spins_us[] = {200, 300, 400};
    EXPECT_EQ(path_of(trace, op.range), paths[i % 3]);
    EXPECT_NEAR(duration_us, spins_us[i % 3], 40);
  }
}

// On an H200 (30 Nov 2026) all nodes of an edited graph had the range of its instantiation.
TEST(TracedGraphs, KeepsTheRangesOfAGraphThatWasEditedAfterItsCapture) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  Trace trace;
  ASSERT_NO_FATAL_FAILURE(trace_graphs("edited", trace));
  ASSERT_EQ(trace.gpu_ops.size(), 24u);
  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    const GpuOp& op = trace.gpu_ops[i];
    SCOPED_TRACE(i);
    const char* paths[] = {"step/forward/first", "step/forward/second", "step/backward/first"};
    EXPECT_EQ(path_of(trace, op.range), paths[i / 2 % 3]);
    EXPECT_EQ(op.kind, GpuOpKind::kKernel);
    EXPECT_EQ(trace.text(op.name).find("memset_kernel") != std::string::npos, i % 2 == 0);
  }
}

}  // namespace
}  // namespace steplens
