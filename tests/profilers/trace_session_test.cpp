#include "profilers/injection/trace_session.h"

#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "tests/profilers/cupti_replay.h"
#include "tests/profilers/pm_replay.h"
#include "tests/profilers/temporary_folder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/trace/trace_reader.h"

namespace steplens {
namespace {

using testing::HasSubstr;

int num_fences = 0;

class TraceSessionTest : public testing::Test {
 protected:
  TraceSessionTest() {
    request_.path = folder_.path() / "trace.slt";
    num_fences = 0;
  }

  void start(bool with_cupti = true) {
    session_.emplace(request_);
    session_->set_fence([] { ++num_fences; });
    if (with_cupti) session_->start_cuda(&cupti_, "");
  }

  // A launch now, in a range of this name, and a kernel a little later.
  void launch(const char* phase, std::uint64_t graph_node_id = 0) {
    session_->ranges().push(0, phase);
    const auto now = static_cast<std::uint64_t>(unix_now_ns());
    CUpti_ActivityAPI call = api_record(now, now + 1, ++num_launches_);
    call.threadId = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    CUpti_ActivityKernel10 kernel = kernel_record(now + 2, now + 3, num_launches_);
    kernel.graphNodeId = graph_node_id;
    replay_.hold(ActivityRecords().add(call).add(kernel));
    session_->ranges().pop(0);
  }
  void step() {
    session_->ranges().push(0, "step");
    launch("forward");
    launch("backward");
    session_->ranges().pop(0);
  }
  Trace trace() const { return read_trace(request_.path); }

  FolderOfFiles folder_;
  TraceRequest request_;
  CuptiReplay replay_;
  const CuptiApi cupti_ = CuptiReplay::api();
  std::optional<TraceSession> session_;
  std::uint32_t num_launches_ = 0;
};

TEST_F(TraceSessionTest, WritesTheWindowAsSoonAsItsLastStepEnds) {
  request_.first_step = 2;
  request_.num_steps = 3;
  start();
  for (int i = 0; i < 4; ++i) step();
  EXPECT_FALSE(std::filesystem::exists(request_.path));
  step();
  ASSERT_TRUE(std::filesystem::exists(request_.path));
  EXPECT_EQ(num_fences, 1);
  EXPECT_TRUE(replay_.enabled.empty());
  for (int i = 0; i < 5; ++i) step();  // Of no interest any more.
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(num_fences, 1);

  const Trace trace = this->trace();
  ASSERT_EQ(trace.steps.size(), 3u);
  EXPECT_EQ(trace.steps[0].first_step_number, 2);
  ASSERT_EQ(trace.gpu_ops.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(trace.gpu_ops[i].correlation_id, 5 + i);
    EXPECT_EQ(trace.gpu_ops[i].step_index, static_cast<std::int32_t>(i / 2));
    EXPECT_EQ(trace.gpu_ops[i].phase, i % 2 == 0 ? Phase::kForward : Phase::kBackward);
  }
  EXPECT_FALSE(trace.quality.contains(std::string(quality::kUnattributed)));
  EXPECT_EQ(trace.quality.at("decoded_records"), 20);
  EXPECT_FALSE(trace.info.contains("cuda_absent_reason"));
}

// Waiting and writing have no place in the last step of a program that measures its steps.
TEST_F(TraceSessionTest, LeavesTheEndToAProgramThatSaysSo) {
  request_.first_step = 1;
  request_.num_steps = 2;
  request_.is_ended_by_call = true;
  start();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(num_fences, 0);
  EXPECT_FALSE(replay_.enabled.empty());
  EXPECT_FALSE(std::filesystem::exists(request_.path));
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(num_fences, 1);
  EXPECT_EQ(trace().steps.size(), 2u);
  EXPECT_EQ(trace().gpu_ops.size(), 4u);
}

TEST_F(TraceSessionTest, GivesGraphKernelsTheRangeOfTheirCapture) {
  request_.first_step = 1;
  request_.num_steps = 2;
  start();
  session_->ranges().push(0, "step");
  session_->ranges().push(0, "backward");
  replay_.create_node(1);
  session_->ranges().pop(0);
  session_->ranges().pop(0);
  replay_.clone_node(11, 1);
  for (int i = 0; i < 2; ++i) {
    session_->ranges().push(0, "step");
    launch("other", 11);
    session_->ranges().pop(0);
  }
  const Trace trace = this->trace();
  ASSERT_EQ(trace.gpu_ops.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(trace.gpu_ops[i].attribution, Attribution::kGraphNode);
    EXPECT_EQ(trace.gpu_ops[i].phase, Phase::kBackward);
    EXPECT_EQ(trace.gpu_ops[i].step_index, static_cast<std::int32_t>(i));
  }
}

TEST_F(TraceSessionTest, TracesAllUntilItIsFinishedWithoutAFirstStep) {
  start();
  step();
  step();
  EXPECT_FALSE(std::filesystem::exists(request_.path));
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(num_fences, 1);
  EXPECT_EQ(trace().gpu_ops.size(), 4u);
  EXPECT_EQ(trace().steps.size(), 2u);
}

TEST_F(TraceSessionTest, WritesRangesWithoutKernelsAsTheNullCollector) {
  request_.kind = TraceKind::kNull;
  request_.first_step = 0;
  request_.num_steps = 1;
  start();
  step();
  const Trace trace = this->trace();
  EXPECT_EQ(trace.info["kind"], "null");
  EXPECT_TRUE(trace.gpu_ops.empty());
  EXPECT_EQ(trace.steps.size(), 1u);
}

TEST_F(TraceSessionTest, AsksForWholeGraphsAsGraphTrace) {
  request_.kind = TraceKind::kGraphTrace;
  start();
  EXPECT_TRUE(replay_.enabled.contains(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
}

// https://github.com/pytorch/pytorch/issues/117935
TEST_F(TraceSessionTest, TracesRangesAndSaysWhoKeepsItFromTheRest) {
  replay_.subscribe_result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  replay_.holder = "CUPTI for Kineto";
  testing::internal::CaptureStderr();
  start();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("steplens: cannot trace: \"CUPTI for Kineto\" uses CUPTI"));
  session_->ranges().push(0, "step");
  session_->ranges().pop(0);
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(num_fences, 0);
  const Trace trace = this->trace();
  EXPECT_THAT(trace.info["cuda_absent_reason"].get<std::string>(), HasSubstr("CUPTI for Kineto"));
  EXPECT_EQ(trace.steps.size(), 1u);
}

TEST_F(TraceSessionTest, SaysWhyThereIsNoCupti) {
  start(/*with_cupti=*/false);
  session_->start_cuda(nullptr, "no NVIDIA driver");
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(trace().info["cuda_absent_reason"], "no NVIDIA driver");
}

TEST_F(TraceSessionTest, SaysThatTheProgramMadeNoCudaCall) {
  start(/*with_cupti=*/false);
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(trace().info["cuda_absent_reason"], "the program made no CUDA call");
}

TEST_F(TraceSessionTest, ShowsWhatWasDropped) {
  start();
  replay_.drop(3);
  step();
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(trace().quality.at(std::string(quality::kDropped)), 3);
  EXPECT_TRUE(has_lost_data(trace().quality));
}

TEST_F(TraceSessionTest, SaysThatTheProgramEndedBeforeItsStep) {
  request_.first_step = 3;
  start();
  step();
  const std::string failure = session_->finish();
  EXPECT_EQ(failure, "no trace: the program ended before its step 3 (a range named \"step\")");
  EXPECT_EQ(session_->finish(), failure);
  EXPECT_FALSE(std::filesystem::exists(request_.path));
  EXPECT_EQ(num_fences, 0);
}

TEST_F(TraceSessionTest, SaysWhyTheFileCannotBeWritten) {
  request_.path = folder_.path() / "none" / "trace.slt";
  start();
  step();
  const std::string failure = session_->finish();
  EXPECT_THAT(failure, HasSubstr("none/trace.slt"));
  EXPECT_EQ(session_->finish(), failure);
  EXPECT_EQ(num_fences, 1);
}

TEST_F(TraceSessionTest, WritesWhileOtherThreadsGoOn) {
  request_.first_step = 5;
  request_.num_steps = 5;
  start();
  {
    // A loader that never stops, with names that were not there before.
    const std::jthread loader([&](const std::stop_token& token) {
      for (int i = 0; !token.stop_requested(); ++i) {
        session_->ranges().push(0, "data");
        session_->ranges().push(0, "sample " + std::to_string(i % 5000));
        session_->ranges().pop(0);
        session_->ranges().pop(0);
      }
    });
    for (int i = 0; i < 20; ++i) step();
  }
  const Trace trace = this->trace();
  EXPECT_EQ(trace.steps.size(), 5u);
  EXPECT_EQ(trace.gpu_ops.size(), 10u);
  EXPECT_EQ(session_->finish(), "");
}

class CountersSessionTest : public TraceSessionTest {
 protected:
  CountersSessionTest() {
    request_.kind = TraceKind::kCounters;
    request_.first_step = 1;
    request_.num_steps = 2;
  }
  void start_counters() {
    start();
    session_->set_current_device([] { return std::optional<std::size_t>(2); });
    session_->start_counters(&pm_api_, "");
  }
  void sample_now(double percent) {
    const auto now = static_cast<std::uint64_t>(unix_now_ns());
    pm_.push({.start_ns = now - 10,
              .end_ns = now,
              .percents = {{"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", percent}}});
  }
  std::string sm_active_reason() const {
    const Trace trace = this->trace();
    return trace.text(trace.counter_tracks.at(0).absent_reason);
  }

  PmReplay pm_;
  const PmSamplingApi pm_api_ = PmReplay::api();
};

TEST_F(CountersSessionTest, PutsTheWindowsSamplesBesideItsKernels) {
  start_counters();
  step();  // Warm-up: sampling begins here.
  EXPECT_TRUE(pm_.is_enabled);
  EXPECT_EQ(pm_.device_index, 2U);
  sample_now(10);
  session_->ranges().push(0, "step");
  launch("forward");
  sample_now(70);
  session_->ranges().pop(0);
  step();
  EXPECT_FALSE(pm_.is_enabled);
  const Trace trace = this->trace();
  EXPECT_EQ(trace.info["kind"], "counters");
  EXPECT_EQ(trace.gpu_ops.size(), 3u);
  ASSERT_EQ(trace.counter_tracks.size(), pm_metrics().size());
  ASSERT_EQ(trace.counter_samples.size(), pm_metrics().size());  // One sample in the window.
  EXPECT_EQ(trace.text(trace.counter_tracks[0].name), "sm_active");
  EXPECT_NEAR(trace.counter_samples[0].value, 0.7, 0x1p-15);  // Rounded to 2^-14.
  EXPECT_GE(trace.counter_samples[0].time_ns, trace.steps[0].start_ns);
  EXPECT_LE(trace.counter_samples[0].time_ns, trace.steps[0].end_ns);
}

TEST_F(CountersSessionTest, TracesKernelsWhereCountersAreRefused) {
  pm_.failures["counter_availability"] = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  start_counters();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(session_->finish(), "");
  EXPECT_EQ(trace().gpu_ops.size(), 4u);
  EXPECT_THAT(sm_active_reason(), HasSubstr("may not read performance counters"));
  EXPECT_EQ(trace().info["counters_absent_reason"], sm_active_reason());
}

TEST_F(CountersSessionTest, SaysWhyPmSamplingIsNotThere) {
  start();
  session_->start_counters(nullptr, "libnvperf_host.so cannot be loaded");
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(sm_active_reason(), "libnvperf_host.so cannot be loaded");
}

TEST_F(CountersSessionTest, SaysThatNoThreadOfAStepUsedCuda) {
  start_counters();
  session_->set_current_device([]() -> std::optional<std::size_t> { return std::nullopt; });
  for (int i = 0; i < 3; ++i) step();
  EXPECT_THAT(sm_active_reason(), HasSubstr("no range named \"step\" on a thread that uses CUDA"));
}

TEST_F(CountersSessionTest, IsNotThereForOtherKinds) {
  request_.kind = TraceKind::kTrace;
  start();
  EXPECT_FALSE(session_->wants_counters());
  for (int i = 0; i < 3; ++i) step();
  EXPECT_TRUE(trace().counter_tracks.empty());
}

}  // namespace
}  // namespace steplens
