#include "profilers/trace/build_trace.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trace/range_names.h"

namespace steplens {
namespace {

using testing::ElementsAre;

// The window is 10'000 to 20'000; what a test hands over is in those times, what it reads in the
// trace begins at 0.
constexpr TraceWindow kWindow = {.start_ns = 10'000, .end_ns = 20'000, .first_step_number = 7};
constexpr std::uint64_t kMainThread = 100;
constexpr std::uint64_t kAutogradThread = 101;
constexpr std::uint64_t kLoaderThread = 102;

// What recorder and collector would have taken down.
class Recording {
 public:
  // A range by its path; `domain` is that of the last part.
  std::uint32_t range(std::string_view path, std::string_view domain = "") {
    std::uint32_t row = kNoRow;
    while (true) {
      const std::size_t slash = path.find('/');
      const bool is_last = slash == std::string_view::npos;
      const Range wanted{.name = names_.id_of(path.substr(0, slash)),
                         .domain = is_last ? names_.id_of(domain) : 0,
                         .parent = row};
      const auto found = std::ranges::find(ranges_.ranges, wanted);
      row = static_cast<std::uint32_t>(found - ranges_.ranges.begin());
      if (found == ranges_.ranges.end()) ranges_.ranges.push_back(wanted);
      if (is_last) return row;
      path.remove_prefix(slash + 1);
    }
  }

  // Outer ranges before inner ones. `end_ns` 0: still open.
  void open(std::uint64_t tid, std::string_view path, std::int64_t start_ns, std::int64_t end_ns,
            std::string_view domain = "") {
    std::vector<RangeRecorder::Instance>& instances = thread(tid).instances;
    std::uint32_t parent = kNoRow;
    for (std::uint32_t i = 0; i < instances.size(); ++i) {
      const bool is_around =
          instances[i].start_ns <= start_ns &&
          (instances[i].end_ns == 0 || (end_ns != 0 && instances[i].end_ns >= end_ns));
      if (is_around) parent = i;
    }
    instances.push_back(
        {.start_ns = start_ns, .end_ns = end_ns, .range = range(path, domain), .parent = parent});
  }
  // By start and end, not by push and pop.
  void start(std::uint64_t tid, std::string_view path, std::int64_t start_ns, std::int64_t end_ns) {
    thread(tid).started.push_back({.start_ns = start_ns, .end_ns = end_ns, .range = range(path)});
  }

  // A call of the runtime that takes 10 ns.
  void call(std::uint64_t tid, std::uint32_t correlation_id, std::int64_t start_ns,
            bool is_driver = false, std::string_view name = "cudaLaunchKernel") {
    raw.apis.push_back({.api = {.start_ns = start_ns,
                                .end_ns = start_ns + 10,
                                .name = names_.id_of(name),
                                .correlation_id = correlation_id},
                        .tid = tid,
                        .is_driver = is_driver});
  }
  // A kernel that takes 100 ns.
  GpuOp& kernel(std::uint32_t correlation_id, std::int64_t start_ns,
                std::uint64_t graph_node_id = 0) {
    raw.gpu_ops.push_back({.start_ns = start_ns,
                           .end_ns = start_ns + 100,
                           .graph_node_id = graph_node_id,
                           .name = names_.id_of("kernel"),
                           .correlation_id = correlation_id});
    return raw.gpu_ops.back();
  }

  StringId id_of(std::string_view text) { return names_.id_of(text); }

  Trace build() const { return build_trace(raw, ranges_, origins, names_.texts(), kWindow); }

  RawRecords raw;
  GraphNodeOrigins origins;

 private:
  RangeRecorder::Thread& thread(std::uint64_t tid) {
    const auto found = std::ranges::find(ranges_.threads, tid, &RangeRecorder::Thread::tid);
    if (found != ranges_.threads.end()) return *found;
    ranges_.threads.push_back({.tid = tid, .instances = {}, .started = {}});
    return ranges_.threads.back();
  }

  StringTable names_;
  RangeRecorder::Snapshot ranges_;
};

std::string path_of(const Trace& trace, std::uint32_t range) {
  if (range == kNoRow) return "-";
  const Range& node = trace.ranges[range];
  const std::string& name = trace.text(node.name);
  return node.parent == kNoRow ? name : path_of(trace, node.parent) + "/" + name;
}
std::string path_of_op(const Trace& trace, std::size_t op) {
  return path_of(trace, trace.gpu_ops.at(op).range);
}
std::int64_t counter(const Trace& trace, std::string_view name) {
  const auto found = trace.quality.find(std::string(name));
  return found == trace.quality.end() ? 0 : found->second;
}

// One step on the main thread, with all phases.
class OneStep : public Recording {
 public:
  OneStep() {
    open(kMainThread, "step", 10'000, 19'000);
    open(kMainThread, "step/data", 10'100, 11'000);
    open(kMainThread, "step/forward", 11'000, 13'000);
    open(kMainThread, "step/forward/block 0", 11'100, 12'000);
    open(kMainThread, "step/backward", 13'000, 17'000);
    open(kMainThread, "step/optimizer", 17'000, 18'500);
  }
};

TEST(BuildTrace, GivesAnOperationTheInnermostRangeOfItsCall) {
  OneStep recording;
  recording.call(kMainThread, 1, 11'500);
  recording.kernel(1, 18'900);  // Runs much later: the launch is what counts.
  recording.call(kMainThread, 2, 12'500);
  recording.kernel(2, 19'100);
  recording.call(kMainThread, 3, 18'600);
  recording.kernel(3, 19'300);
  const Trace trace = recording.build();
  ASSERT_EQ(trace.gpu_ops.size(), 3u);
  EXPECT_EQ(path_of_op(trace, 0), "step/forward/block 0");
  EXPECT_EQ(path_of_op(trace, 1), "step/forward");
  EXPECT_EQ(path_of_op(trace, 2), "step");
  EXPECT_EQ(trace.gpu_ops[0].phase, Phase::kForward);
  EXPECT_EQ(trace.gpu_ops[1].phase, Phase::kForward);
  EXPECT_EQ(trace.gpu_ops[2].phase, Phase::kNone);
  EXPECT_EQ(counter(trace, quality::kUnattributed), 1);
  for (const GpuOp& op : trace.gpu_ops) {
    EXPECT_EQ(op.attribution, Attribution::kRange);
    EXPECT_EQ(op.step_index, 0);
    EXPECT_EQ(op.micro_step_index, -1);
  }
  EXPECT_EQ(path_of(trace, trace.range_instances[trace.apis[0].range_instance].range),
            "step/forward/block 0");
}

TEST(BuildTrace, TakesARangeFromItsStartToBeforeItsEnd) {
  OneStep recording;
  recording.call(kMainThread, 1, 11'100);
  recording.call(kMainThread, 2, 12'000);
  recording.call(kMainThread, 3, 13'000);
  for (const std::uint32_t id : {1u, 2u, 3u}) recording.kernel(id, 14'000 + id);
  const Trace trace = recording.build();
  EXPECT_EQ(path_of_op(trace, 0), "step/forward/block 0");
  EXPECT_EQ(path_of_op(trace, 1), "step/forward");
  EXPECT_EQ(path_of_op(trace, 2), "step/backward");
}

TEST(BuildTrace, PutsAThreadWithoutAStepBelowWhatTheStepsThreadHasOpen) {
  OneStep recording;
  recording.open(kAutogradThread, "node", 13'100, 13'900);
  recording.call(kAutogradThread, 1, 13'500);
  recording.kernel(1, 14'000);
  recording.call(kAutogradThread, 2, 14'500);  // No range of its own at all.
  recording.kernel(2, 15'000);
  const Trace trace = recording.build();
  EXPECT_EQ(path_of_op(trace, 0), "step/backward/node");
  EXPECT_EQ(path_of_op(trace, 1), "step/backward");
  for (const GpuOp& op : trace.gpu_ops) {
    EXPECT_EQ(op.phase, Phase::kBackward);
    EXPECT_EQ(op.step_index, 0);
    EXPECT_EQ(op.attribution, Attribution::kRange);
  }
}

TEST(BuildTrace, PutsAPhaseOfAnotherThreadBesideTheStepsOwn) {
  OneStep recording;
  recording.open(kAutogradThread, "backward/block 0", 13'100, 13'900);
  recording.call(kAutogradThread, 1, 13'500);
  recording.kernel(1, 14'000);
  recording.open(kLoaderThread, "data", 11'200, 11'900);
  recording.call(kLoaderThread, 2, 11'500);  // The main thread is in step/forward/block 0.
  recording.kernel(2, 15'000);
  const Trace trace = recording.build();
  EXPECT_EQ(path_of_op(trace, 0), "step/backward/block 0");
  EXPECT_EQ(trace.gpu_ops[0].phase, Phase::kBackward);
  EXPECT_EQ(path_of_op(trace, 1), "step/data");
  EXPECT_EQ(trace.gpu_ops[1].phase, Phase::kData);
  // The main thread's own row, not a second one.
  EXPECT_EQ(trace.gpu_ops[1].range, trace.range_instances[1].range);
}

TEST(BuildTrace, KeepsThePhaseOfAnotherThreadWithinTheMicroStep) {
  Recording recording;
  recording.open(kMainThread, "step", 10'000, 19'000);
  recording.open(kMainThread, "step/micro-step", 10'000, 15'000);
  recording.open(kMainThread, "step/micro-step/backward", 12'000, 15'000);
  recording.open(kAutogradThread, "backward/block 0", 13'000, 14'000);
  recording.call(kAutogradThread, 1, 13'500);
  recording.kernel(1, 14'000);
  const Trace trace = recording.build();
  EXPECT_EQ(path_of_op(trace, 0), "step/micro-step/backward/block 0");
  EXPECT_EQ(trace.gpu_ops[0].micro_step_index, 0);
}

TEST(BuildTrace, LeavesAThreadWithoutAnyRangeOutsideOfStepsUnattributed) {
  OneStep recording;
  recording.call(kLoaderThread, 1, 19'500);  // After the step.
  recording.kernel(1, 19'600);
  const Trace trace = recording.build();
  EXPECT_EQ(trace.gpu_ops.at(0).range, kNoRow);
  EXPECT_EQ(trace.gpu_ops[0].attribution, Attribution::kNone);
  EXPECT_EQ(trace.gpu_ops[0].step_index, -1);
  EXPECT_EQ(counter(trace, quality::kUnattributed), 1);
}

TEST(BuildTrace, LeavesAPathThatHoldsTheStepAsItIs) {
  Recording recording;
  recording.open(kMainThread, "epoch", 5'000, 0);
  recording.open(kMainThread, "epoch/step", 10'000, 19'000);
  recording.open(kMainThread, "epoch/step/forward", 11'000, 13'000);
  recording.call(kMainThread, 1, 12'000);
  recording.kernel(1, 12'500);
  recording.open(kAutogradThread, "node", 11'000, 13'000);
  recording.call(kAutogradThread, 2, 12'000);
  recording.kernel(2, 12'600);
  const Trace trace = recording.build();
  EXPECT_EQ(path_of_op(trace, 0), "epoch/step/forward");
  EXPECT_EQ(path_of_op(trace, 1), "epoch/step/forward/node");
  EXPECT_EQ(trace.steps.size(), 1u);
}

TEST(BuildTrace, IgnoresRangesOfLibrariesWhenItLooksForOne) {
  OneStep recording;
  recording.open(kMainThread, "step/forward/block 0/all-reduce", 11'200, 11'900, "NCCL");
  recording.call(kMainThread, 1, 11'500);
  recording.kernel(1, 12'000);
  const Trace trace = recording.build();
  EXPECT_EQ(path_of_op(trace, 0), "step/forward/block 0");
  EXPECT_EQ(trace.range_instances.size(), 7u);  // But it is there.
}

TEST(BuildTrace, PutsNothingBelowRangesOutsideOfAllNesting) {
  OneStep recording;
  recording.start(kMainThread, "transfer", 11'200, 11'300);
  recording.start(kMainThread, "step", 11'250, 11'350);  // Nor is it a step.
  recording.start(kMainThread, "prefetch", 11'400, 18'000);
  recording.call(kMainThread, 1, 11'500);
  recording.kernel(1, 12'000);
  const Trace trace = recording.build();
  EXPECT_EQ(path_of_op(trace, 0), "step/forward/block 0");
  EXPECT_EQ(trace.steps.size(), 1u);
  ASSERT_EQ(trace.range_instances.size(), 9u);
  EXPECT_EQ(path_of(trace, trace.range_instances[4].range), "transfer");
  EXPECT_EQ(trace.range_instances[4].parent, kNoRow);
}

// https://github.com/pytorch/pytorch/issues/186626
TEST(BuildTrace, TakesTheModuleFromTheGraphsNodeAndTheStepFromTheLaunch) {
  Recording recording;
  for (const std::int64_t step_ns : {10'000, 15'000}) {
    recording.open(kMainThread, "step", step_ns, step_ns + 4'000);
    recording.open(kMainThread, "step/other", step_ns + 100, step_ns + 3'000);
  }
  const std::uint32_t step = recording.range("step");
  const std::uint32_t forward = recording.range("step/forward/block 0");
  const std::uint32_t node = recording.range("node");
  const std::uint32_t backward = recording.range("step/backward");
  recording.origins[11] = {.range = forward, .step_range = forward};
  recording.origins[21] = {.range = node,
                           .step_range = backward};  // Captured by autograd's thread.
  recording.origins[31] = {.range = kNoRow, .step_range = step};
  // Two graphs in turn; nodes 11 and 31 belong to one, 21 to the other.
  recording.call(kMainThread, 1, 10'200);
  recording.call(kMainThread, 2, 10'300);
  recording.call(kMainThread, 3, 15'200);
  recording.call(kMainThread, 4, 15'300);
  recording.kernel(1, 10'500, 11);
  recording.kernel(2, 10'600, 21);
  recording.kernel(1, 10'700, 31);
  recording.kernel(3, 15'500, 11);
  recording.kernel(4, 15'600, 21);
  recording.kernel(3, 15'700, 31);
  const Trace trace = recording.build();
  ASSERT_EQ(trace.gpu_ops.size(), 6u);
  for (const std::size_t first : {0u, 3u}) {
    EXPECT_EQ(path_of_op(trace, first), "step/forward/block 0");
    EXPECT_EQ(path_of_op(trace, first + 1), "step/backward/node");
    EXPECT_EQ(path_of_op(trace, first + 2), "step");
    EXPECT_EQ(trace.gpu_ops[first].phase, Phase::kForward);
    EXPECT_EQ(trace.gpu_ops[first + 1].phase, Phase::kBackward);
  }
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(trace.gpu_ops[i].attribution, Attribution::kGraphNode);
    EXPECT_EQ(trace.gpu_ops[i].step_index, i < 3 ? 0 : 1);
  }
}

TEST(BuildTrace, GivesANodeThatAnEditAddedTheRangeOfTheOneBehindIt) {
  Recording recording;
  recording.open(kMainThread, "step", 10'000, 14'000);
  const std::uint32_t step = recording.range("step");
  const std::uint32_t forward = recording.range("step/forward/block 0");
  recording.origins[1] = {.range = forward, .step_range = forward};
  recording.origins[2] = {.range = kNoRow, .step_range = step};  // Added by the edit.
  recording.call(kMainThread, 1, 10'200);
  recording.call(kMainThread, 2, 10'300);
  recording.kernel(1, 10'500, 2);
  recording.kernel(1, 10'600, 2);
  recording.kernel(1, 10'700, 1);
  recording.kernel(1, 10'800, 2);  // Nothing of its launch follows.
  recording.kernel(2, 10'900, 1);
  const Trace trace = recording.build();
  for (const std::size_t op : {0u, 1u, 2u}) {
    EXPECT_EQ(path_of_op(trace, op), "step/forward/block 0");
    EXPECT_EQ(trace.gpu_ops[op].phase, Phase::kForward);
  }
  EXPECT_EQ(path_of_op(trace, 3), "step");
  EXPECT_EQ(counter(trace, quality::kUnattributed), 1);
}

TEST(BuildTrace, TakesTheLaunchsRangeForANodeOfUnknownOrigin) {
  OneStep recording;
  recording.origins[5] = {};  // Captured outside of all ranges.
  recording.call(kMainThread, 1, 11'500);
  recording.kernel(1, 12'000, 4);  // Captured before the library was there.
  recording.kernel(1, 12'200, 5);
  const Trace trace = recording.build();
  for (const std::size_t op : {0u, 1u}) {
    EXPECT_EQ(path_of_op(trace, op), "step/forward/block 0");
    EXPECT_EQ(trace.gpu_ops[op].attribution, Attribution::kRange);
  }
}

// https://github.com/pytorch/kineto/issues/788
TEST(BuildTrace, FoldsTheDriversCallIntoTheRuntimes) {
  OneStep recording;
  recording.call(kMainThread, 1, 11'502, true, "cuLaunchKernelEx");
  recording.call(kMainThread, 1, 11'500, false, "cudaLaunchKernelExC");
  recording.call(kMainThread, 2, 11'700, true, "cuLaunchKernel");  // Of the program itself.
  recording.kernel(1, 12'000);
  recording.kernel(2, 12'100);
  const Trace trace = recording.build();
  ASSERT_EQ(trace.apis.size(), 2u);
  EXPECT_EQ(trace.text(trace.apis[0].name), "cudaLaunchKernelExC");
  EXPECT_EQ(trace.apis[0].start_ns, 1'500);
  EXPECT_EQ(trace.apis[0].end_ns, 1'510);
  EXPECT_EQ(trace.text(trace.apis[1].name), "cuLaunchKernel");
  EXPECT_EQ(trace.threads[trace.apis[1].thread].tid, kMainThread);
  EXPECT_EQ(counter(trace, quality::kWithoutLaunch), 0);
  EXPECT_EQ(path_of_op(trace, 0), "step/forward/block 0");
  EXPECT_EQ(path_of_op(trace, 1), "step/forward/block 0");
}

TEST(BuildTrace, CountsAnOperationWithoutACallAndKeepsIt) {
  OneStep recording;
  recording.call(kMainThread, 1, 11'500);
  recording.kernel(1, 11'600);
  recording.kernel(2, 12'000);  // Its call was dropped.
  const Trace trace = recording.build();
  ASSERT_EQ(trace.gpu_ops.size(), 2u);
  EXPECT_EQ(counter(trace, quality::kWithoutLaunch), 1);
  EXPECT_EQ(trace.gpu_ops[1].step_index, 0);  // By its own time.
  EXPECT_EQ(trace.gpu_ops[1].range, kNoRow);
  EXPECT_EQ(counter(trace, quality::kUnattributed), 1);
  EXPECT_EQ(counter(trace, quality::kOutsideWindow), 0);
}

TEST(BuildTrace, KeepsOperationsWhenThereAreNoCallsAtAll) {
  OneStep recording;
  recording.kernel(1, 12'000);
  const Trace trace = recording.build();
  EXPECT_EQ(trace.gpu_ops.size(), 1u);
  EXPECT_EQ(counter(trace, quality::kWithoutLaunch), 1);
}

TEST(BuildTrace, LeavesOutWhatWasLaunchedOutsideTheWindow) {
  OneStep recording;
  recording.call(kMainThread, 10, 9'000);   // Ended before the window.
  recording.call(kMainThread, 12, 9'995);   // Ends in it.
  recording.call(kMainThread, 20, 11'500);  // The window's first.
  recording.call(kLoaderThread, 30, 20'500);
  recording.kernel(9, 9'500);    // Runs before it, its call unknown,
  recording.kernel(10, 12'000);  // queued before it, the call known
  recording.kernel(11, 12'100);  // or not,
  recording.kernel(12, 12'200);  // launched across its begin,
  recording.kernel(20, 12'300);
  recording.kernel(30, 20'600);  // launched after its end.
  const Trace trace = recording.build();
  ASSERT_EQ(trace.gpu_ops.size(), 1u);
  EXPECT_EQ(trace.gpu_ops[0].correlation_id, 20u);
  EXPECT_EQ(counter(trace, quality::kOutsideWindow), 5);
  EXPECT_EQ(counter(trace, quality::kWithoutLaunch), 0);
  ASSERT_EQ(trace.apis.size(), 2u);
  EXPECT_EQ(trace.apis[0].start_ns, -5);
}

TEST(BuildTrace, KeepsWhatRunsOnAfterTheWindow) {
  OneStep recording;
  recording.call(kMainThread, 1, 18'000);
  recording.kernel(1, 20'500);
  const Trace trace = recording.build();
  ASSERT_EQ(trace.gpu_ops.size(), 1u);
  EXPECT_EQ(trace.gpu_ops[0].start_ns, 10'500);
  EXPECT_EQ(trace.gpu_ops[0].step_index, 0);
}

// https://github.com/pytorch/pytorch/issues/188956
TEST(BuildTrace, CountsWhatStartsBeforeItsLaunch) {
  OneStep recording;
  recording.call(kMainThread, 1, 11'500);
  recording.kernel(1, 11'499);
  recording.call(kMainThread, 2, 11'700);
  recording.kernel(2, 11'700);
  const Trace trace = recording.build();
  EXPECT_EQ(trace.gpu_ops.size(), 2u);
  EXPECT_EQ(counter(trace, quality::kStartBeforeLaunch), 1);
}

TEST(BuildTrace, NumbersStepsAndMicroSteps) {
  Recording recording;
  for (const std::int64_t step_ns : {10'000, 15'000}) {
    recording.open(kMainThread, "step", step_ns, step_ns + 4'000);
    recording.open(kMainThread, "step/micro-step", step_ns + 100, step_ns + 1'000);
    recording.open(kMainThread, "step/micro-step", step_ns + 1'000, step_ns + 2'000);
  }
  std::uint32_t id = 0;
  for (const std::int64_t launch_ns :
       {10'050, 10'100, 11'500, 12'500, 14'500, 15'500, 16'000, 17'000}) {
    recording.call(kMainThread, ++id, launch_ns);
    recording.kernel(id, launch_ns);
  }
  const Trace trace = recording.build();
  std::vector<std::pair<int, int>> places;
  for (const GpuOp& op : trace.gpu_ops) places.emplace_back(op.step_index, op.micro_step_index);
  EXPECT_THAT(places,
              ElementsAre(std::pair(0, -1), std::pair(0, 0), std::pair(0, 1), std::pair(0, -1),
                          std::pair(-1, -1), std::pair(1, 0), std::pair(1, 1), std::pair(1, -1)));
  EXPECT_THAT(trace.steps,
              ElementsAre(Step{.start_ns = 0, .end_ns = 4'000, .first_step_number = 7},
                          Step{.start_ns = 5'000, .end_ns = 9'000, .first_step_number = 8}));
}

TEST(BuildTrace, TakesOutermostStepsOnlyAndNoneThatBeganBeforeTheWindow) {
  Recording recording;
  recording.open(kMainThread, "step", 9'000, 11'000);
  recording.open(kMainThread, "step/step", 10'100, 10'200);
  recording.open(kMainThread, "step", 12'000, 15'000);
  recording.open(kMainThread, "step/forward", 12'100, 14'000);
  recording.open(kMainThread, "step/forward/step", 12'200, 13'000);
  recording.open(kMainThread, "step", 16'000, 17'000, "library");
  const Trace trace = recording.build();
  EXPECT_THAT(trace.steps,
              ElementsAre(Step{.start_ns = 2'000, .end_ns = 5'000, .first_step_number = 7}));
}

TEST(BuildTrace, LeavesAMicroStepThatBeganBeforeItsStepUnnumbered) {
  Recording recording;
  recording.open(kMainThread, "step", 12'000, 15'000);
  recording.open(kLoaderThread, "micro-step", 11'000, 14'000);
  recording.call(kMainThread, 1, 13'000);
  recording.kernel(1, 13'100);
  EXPECT_EQ(recording.build().gpu_ops.at(0).micro_step_index, -1);
}

TEST(BuildTrace, MakesOperationsOfACpusOperators) {
  OneStep recording;
  recording.open(kMainThread, "step/forward/block 0/aten::linear", 11'200, 11'400,
                 kOperatorDomainName);
  recording.open(kMainThread, "step/aten::add_", 18'600, 18'700, kOperatorDomainName);
  recording.open(kAutogradThread, "backward/block 0", 13'100, 13'900);
  recording.open(kAutogradThread, "backward/block 0/aten::mm", 13'200, 13'300, kOperatorDomainName);
  recording.open(kMainThread, "aten::mm", 9'000, 9'500, kOperatorDomainName);
  const Trace trace = recording.build();
  ASSERT_EQ(trace.gpu_ops.size(), 3u);
  const GpuOp& linear = trace.gpu_ops[0];
  EXPECT_EQ(linear.kind, GpuOpKind::kOperator);
  EXPECT_EQ(trace.text(linear.name), "aten::linear");
  EXPECT_EQ(linear.start_ns, 1'200);
  EXPECT_EQ(linear.end_ns, 1'400);
  EXPECT_EQ(trace.threads[linear.stream_id].tid, kMainThread);
  EXPECT_EQ(path_of_op(trace, 0), "step/forward/block 0");
  EXPECT_EQ(linear.phase, Phase::kForward);
  EXPECT_EQ(linear.step_index, 0);
  EXPECT_EQ(linear.correlation_id, 0u);
  EXPECT_EQ(path_of_op(trace, 1), "step/backward/block 0");
  EXPECT_EQ(trace.threads[trace.gpu_ops[1].stream_id].tid, kAutogradThread);
  EXPECT_EQ(path_of_op(trace, 2), "step");
  EXPECT_EQ(trace.range_instances.size(), 7u);  // Operators are no ranges any more.
  ASSERT_EQ(trace.devices.size(), 1u);
  EXPECT_EQ(trace.text(trace.devices[0].name), "CPU");
}

TEST(BuildTrace, ShowsTheProfilersOwnCostOnAThreadOfItsOwn) {
  OneStep recording;
  recording.raw.overheads = {
      {.start_ns = 12'000, .end_ns = 12'100, .name = recording.id_of("buffer flush")},
      {.start_ns = 14'000, .end_ns = 14'100, .name = recording.id_of("resource")},
      {.start_ns = 16'000, .end_ns = 16'100, .name = recording.id_of("buffer flush")},
      {.start_ns = 5'000, .end_ns = 5'100, .name = recording.id_of("instrumentation")}};
  const Trace trace = recording.build();
  std::vector<std::string> shown;
  for (const RangeInstance& instance : trace.range_instances) {
    const ThreadInfo& thread = trace.threads[instance.thread];
    if (trace.text(thread.name) != kProfilerDomainName) continue;
    EXPECT_EQ(thread.tid, 0u);
    EXPECT_EQ(trace.text(trace.ranges[instance.range].domain), kProfilerDomainName);
    EXPECT_EQ(instance.end_ns - instance.start_ns, 100);
    shown.push_back(std::to_string(instance.start_ns) + " " + path_of(trace, instance.range));
  }
  EXPECT_THAT(shown, ElementsAre("2000 buffer flush", "4000 resource", "6000 buffer flush"));
}

TEST(BuildTrace, ShowsTheDriversWorkApartFromTheProfilers) {
  OneStep recording;
  recording.raw.overheads = {
      {.start_ns = 12'000, .end_ns = 12'100, .name = recording.id_of("buffer flush")},
      {.start_ns = 13'000,
       .end_ns = 13'500,
       .name = recording.id_of("command buffer full"),
       .is_of_driver = true}};
  const Trace trace = recording.build();
  std::vector<std::string> shown;
  for (const RangeInstance& instance : trace.range_instances) {
    const std::string& domain = trace.text(trace.ranges[instance.range].domain);
    if (domain.empty()) continue;
    EXPECT_EQ(trace.text(trace.threads[instance.thread].name), domain);
    shown.push_back(domain + " " + path_of(trace, instance.range));
  }
  EXPECT_THAT(shown, testing::UnorderedElementsAre("steplens.profiler buffer flush",
                                                   "steplens.driver command buffer full"));
}

TEST(BuildTrace, SortsRowsAndRefersToTheirNewPlaces) {
  Recording recording;
  // In the order in which they were opened; the library's range ends after what is around it.
  recording.open(kMainThread, "step", 12'000, 15'000);
  recording.open(kMainThread, "step/forward", 12'000, 13'000);
  recording.open(kMainThread, "step/forward/block 0", 12'000, 12'000);
  recording.start(kMainThread, "transfer", 11'000, 14'000);
  recording.open(kAutogradThread, "node", 11'500, 0);
  recording.call(kMainThread, 2, 12'500);
  recording.call(kMainThread, 1, 12'400);
  recording.kernel(2, 13'000);
  recording.kernel(1, 12'600);
  recording.raw.syncs = {{.start_ns = 14'000, .end_ns = 14'100, .stream_id = 7},
                         {.start_ns = 13'000, .end_ns = 13'500},
                         {.start_ns = 5'000, .end_ns = 5'100}};
  const Trace trace = recording.build();
  std::vector<std::string> rows;
  for (const RangeInstance& row : trace.range_instances) {
    rows.push_back(std::to_string(trace.threads[row.thread].tid) + " " +
                   std::to_string(row.start_ns) + "-" + std::to_string(row.end_ns) + " " +
                   path_of(trace, row.range) +
                   (row.parent == kNoRow ? "" : " in " + std::to_string(row.parent)));
  }
  EXPECT_THAT(rows, ElementsAre("100 1000-4000 transfer", "100 2000-5000 step",
                                "100 2000-3000 step/forward in 1",
                                "100 2000-2000 step/forward/block 0 in 2",
                                "101 1500-10000 node"));  // Open until the window's end.
  EXPECT_EQ(trace.gpu_ops[0].start_ns, 2'600);
  EXPECT_EQ(trace.gpu_ops[1].start_ns, 3'000);
  EXPECT_EQ(trace.apis[0].start_ns, 2'400);
  EXPECT_EQ(trace.apis[1].start_ns, 2'500);
  EXPECT_EQ(trace.apis[0].range_instance, 2u);
  EXPECT_THAT(trace.syncs, ElementsAre(Sync{.start_ns = 3'000, .end_ns = 3'500},
                                       Sync{.start_ns = 4'000, .end_ns = 4'100, .stream_id = 7}));
}

TEST(BuildTrace, KeepsARangeOfALibraryBehindTheOneAroundIt) {
  // Both start in the same nanosecond, and the inner one ends later: domains nest by themselves.
  RangeRecorder::Snapshot ranges;
  ranges.ranges = {{.name = 1}, {.name = 2, .domain = 3, .parent = 0}};
  ranges.threads = {{.tid = 1,
                     .instances = {{.start_ns = 12'000, .end_ns = 12'500, .range = 0},
                                   {.start_ns = 12'000, .end_ns = 13'000, .range = 1, .parent = 0}},
                     .started = {}}};
  const Trace trace = build_trace({}, ranges, {}, {"", "step", "theirs", "library"}, kWindow);
  ASSERT_EQ(trace.range_instances.size(), 2u);
  EXPECT_EQ(trace.range_instances[1].parent, 0u);
}

TEST(BuildTrace, GivesDevicesRowsByTheirNumber) {
  OneStep recording;
  recording.raw.devices = {{1, {recording.id_of("NVIDIA H200"), recording.id_of("GPU-1")}},
                           {5, {recording.id_of("NVIDIA H100"), recording.id_of("GPU-5")}}};
  recording.call(kMainThread, 1, 11'500);
  recording.kernel(1, 12'000).device = 5;
  recording.kernel(1, 12'001).device = 1;
  recording.kernel(1, 12'002).device = 3;  // CUPTI did not describe it.
  const Trace trace = recording.build();
  ASSERT_EQ(trace.devices.size(), 3u);
  EXPECT_EQ(trace.text(trace.devices[0].uuid), "GPU-1");
  EXPECT_EQ(trace.text(trace.devices[1].name), "NVIDIA H100");
  EXPECT_EQ(trace.gpu_ops[0].device, 1);
  EXPECT_EQ(trace.gpu_ops[1].device, 0);
  EXPECT_EQ(trace.gpu_ops[2].device, 2);
}

TEST(BuildTrace, SaysWhenItWas) {
  Recording recording;
  recording.raw.quality = {{std::string(quality::kDropped), 3}};
  const Trace trace = recording.build();
  EXPECT_EQ(trace.info["start_unix_ns"], 10'000);
  EXPECT_EQ(trace.info["duration_ns"], 10'000);
  EXPECT_EQ(counter(trace, quality::kDropped), 3);
  EXPECT_TRUE(trace.gpu_ops.empty());
  EXPECT_TRUE(trace.steps.empty());
}

}  // namespace
}  // namespace steplens
