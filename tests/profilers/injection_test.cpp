// The built libsteplens_inject.so in a program with NVTX ranges and without CUDA.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/profilers/temporary_folder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/process.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_request.h"

namespace steplens {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class InjectionTest : public testing::Test {
 protected:
  InjectionTest() { request_.path = folder_.path() / "trace.slt"; }

  // Runs the traced program.
  void run(const std::vector<std::string>& arguments) {
    ProcessSpec spec{.command = {STEPLENS_NVTX_PROGRAM_PATH}, .timeout_s = 60};
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    std::map<std::string, std::string> environment =
        environment_for(request_, STEPLENS_INJECT_PATH);
    for (const auto& [name, value] : changed_) environment[name] = value;
    spec.environment.assign(environment.begin(), environment.end());
    result_ = run_process(spec);
    ASSERT_EQ(result_.end, ProcessEnd::kExited) << result_.why_not_started;
    ASSERT_EQ(result_.exit_code, 0) << testing::PrintToString(result_.last_lines);
  }
  bool has_trace() const { return std::filesystem::exists(request_.path); }
  Trace trace() const { return read_trace(request_.path); }

  static std::string path_of(const Trace& trace, std::uint32_t range) {
    const Range& node = trace.ranges[range];
    std::string name = trace.text(node.name);
    if (node.domain != 0) name = trace.text(node.domain) + ":" + name;
    return node.parent == kNoRow ? name : path_of(trace, node.parent) + "/" + name;
  }

  FolderOfFiles folder_;
  TraceRequest request_;
  std::map<std::string, std::string> changed_;  // Of the environment.
  ProcessResult result_;
};

TEST_F(InjectionTest, TracesTheWholeProgram) {
  request_.info = {{"arm", "baseline"}};
  run({"steps=3"});
  EXPECT_THAT(result_.last_lines, IsEmpty());
  const Trace trace = this->trace();
  ASSERT_EQ(trace.steps.size(), 3u);
  std::int64_t last_end_ns = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(trace.steps[i].first_step_number, static_cast<std::int64_t>(i));
    EXPECT_GE(trace.steps[i].start_ns, last_end_ns);
    EXPECT_GT(trace.steps[i].end_ns, trace.steps[i].start_ns);
    last_end_ns = trace.steps[i].end_ns;
  }
  EXPECT_EQ(trace.info["arm"], "baseline");
  EXPECT_EQ(trace.info["kind"], "trace");
  EXPECT_EQ(trace.info["num_steps_wanted"], 0);
  EXPECT_EQ(trace.info["cuda_absent_reason"], "the program made no CUDA call");
  EXPECT_GE(trace.info["duration_ns"].get<std::int64_t>(), last_end_ns);
  EXPECT_TRUE(trace.gpu_ops.empty());
  EXPECT_EQ(trace.quality.at("open_ranges"), 0);
  EXPECT_FALSE(has_lost_data(trace.quality));
}

TEST_F(InjectionTest, RecordsNestingDomainsAndThreads) {
  run({"steps=2"});
  const Trace trace = this->trace();
  std::multiset<std::string> paths;
  std::set<std::uint32_t> threads;
  for (const RangeInstance& instance : trace.range_instances) {
    const std::string path = path_of(trace, instance.range);
    paths.insert(path);
    threads.insert(instance.thread);
    EXPECT_GE(instance.start_ns, 0) << path;
    EXPECT_GE(instance.end_ns, instance.start_ns) << path;
    if (instance.parent == kNoRow) continue;
    const RangeInstance& parent = trace.range_instances[instance.parent];
    EXPECT_LE(parent.start_ns, instance.start_ns) << path;
    EXPECT_GE(parent.end_ns, instance.end_ns) << path;
    EXPECT_EQ(parent.thread, instance.thread) << path;
  }
  EXPECT_THAT(
      paths,
      ElementsAre("backward/block 0", "backward/block 0", "fence", "step", "step", "step/backward",
                  "step/backward", "step/forward", "step/forward", "step/forward/block 0",
                  "step/forward/block 0", "step/forward/block 0/library:all-reduce",
                  "step/forward/block 0/library:all-reduce", "transfer", "transfer"));
  EXPECT_EQ(threads.size(), 3u);  // The main one and one a step.
}

TEST_F(InjectionTest, TracesTheStepsThatAreAskedForOnly) {
  request_.first_step = 2;
  request_.num_steps = 3;
  run({"steps=9"});
  const Trace trace = this->trace();
  std::vector<std::int64_t> numbers;
  for (const Step& step : trace.steps) numbers.push_back(step.first_step_number);
  EXPECT_THAT(numbers, ElementsAre(2, 3, 4));
  EXPECT_EQ(trace.steps[0].start_ns, 0);
  EXPECT_EQ(trace.info["num_steps_wanted"], 3);
  const auto num_named = [&](std::string_view path) {
    return std::ranges::count_if(trace.range_instances, [&](const RangeInstance& instance) {
      return path_of(trace, instance.range) == path;
    });
  };
  EXPECT_EQ(num_named("step/forward"), 3);
  EXPECT_EQ(num_named("backward/block 0"), 3);
  EXPECT_EQ(num_named("fence"), 1);
  for (const RangeInstance& instance : trace.range_instances) EXPECT_GE(instance.start_ns, 0);
}

TEST_F(InjectionTest, KeepsTheStepsOfAProgramThatEndsInItsWindow) {
  request_.first_step = 2;
  request_.num_steps = 10;
  run({"steps=5"});
  const Trace trace = this->trace();
  EXPECT_EQ(trace.steps.size(), 3u);
  EXPECT_EQ(trace.info["num_steps_wanted"], 10);
}

TEST_F(InjectionTest, SaysThatTheProgramEndedBeforeItsStep) {
  request_.first_step = 5;
  run({"steps=5"});
  EXPECT_FALSE(has_trace());
  EXPECT_THAT(result_.last_lines,
              ElementsAre("steplens: no trace: the program ended before its step 5 (a range named "
                          "\"step\")"));
}

TEST_F(InjectionTest, WritesNoTraceFromAForkedChild) {
  request_.first_step = 5;
  request_.num_steps = 2;
  run({"steps=3", "fork=20"});
  EXPECT_FALSE(has_trace());
  EXPECT_THAT(result_.last_lines,
              ElementsAre("child ended with 0", HasSubstr("ended before its step 5")));
}

TEST_F(InjectionTest, GoesOnTracingAfterAFork) {
  request_.first_step = 2;
  request_.num_steps = 3;
  run({"steps=3", "fork=20", "steps=4"});
  EXPECT_EQ(trace().steps.size(), 3u);
  EXPECT_THAT(result_.last_lines, ElementsAre("child ended with 0"));
}

TEST_F(InjectionTest, WritesNoTraceFromAProgramThatTheTracedOneStarts) {
  request_.first_step = 5;
  request_.num_steps = 2;
  run({"steps=3", "spawn=20"});
  EXPECT_FALSE(has_trace());
  EXPECT_THAT(result_.last_lines,
              ElementsAre("child ended with 0", HasSubstr("ended before its step 5")));
}

TEST_F(InjectionTest, WritesTheFileWhenTheProgramAsksForIt) {
  run({"steps=2", "finish", "steps=2", "finish", "abort"});
  EXPECT_THAT(result_.last_lines, ElementsAre("finished: written", "finished: written"));
  EXPECT_EQ(trace().steps.size(), 2u);
}

TEST_F(InjectionTest, TellsTheProgramWhyThereIsNoFile) {
  request_.first_step = 100;
  run({"steps=2", "finish", "abort"});
  EXPECT_THAT(result_.last_lines,
              ElementsAre(HasSubstr("finished: no trace: the program ended before its step 100")));
}

TEST_F(InjectionTest, SaysThatTheFileCannotBeWritten) {
  request_.path = folder_.path() / "no such folder" / "trace.slt";
  run({"steps=2"});
  EXPECT_THAT(result_.last_lines,
              ElementsAre(AllOf(HasSubstr("steplens: "), HasSubstr("no such folder/trace.slt"))));
}

TEST_F(InjectionTest, RunsTheProgramUntracedIfTheRequestIsBroken) {
  changed_ = {{"STEPLENS_TRACE_STEPS", "none"}};
  run({"steps=2"});
  EXPECT_FALSE(has_trace());
  EXPECT_THAT(result_.last_lines,
              ElementsAre("steplens: not traced: STEPLENS_TRACE_STEPS: \"none\" is no whole number "
                          "of at least 1"));
}

TEST_F(InjectionTest, LeavesAProgramAloneIfNothingIsAskedFor) {
  changed_ = {{"STEPLENS_TRACE_OUT", ""}};
  run({"steps=2", "finish"});
  EXPECT_THAT(result_.last_lines, ElementsAre("finished: no trace was asked for"));
}

}  // namespace
}  // namespace steplens
