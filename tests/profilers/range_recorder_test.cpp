#include "profilers/trace/range_recorder.h"

#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace steplens {
namespace {

// A clock that goes on by 10 each time that it is read.
std::atomic<std::int64_t> clock_ns = 0;
std::int64_t tick() { return clock_ns += 10; }

std::uint64_t this_tid() { return static_cast<std::uint64_t>(::syscall(SYS_gettid)); }

class RangeRecorderTest : public testing::Test {
 protected:
  RangeRecorderTest() { clock_ns = 0; }

  // "step/forward", with the domain of the last part before it if it is not the default one.
  std::string path_of(const RangeRecorder::Snapshot& snapshot, std::uint32_t range) const {
    if (range == kNoRow) return "";
    const std::vector<std::string> texts = names_.texts();
    const Range& node = snapshot.ranges[range];
    std::string path = path_of(snapshot, node.parent);
    if (!path.empty()) path += '/';
    if (node.domain != 0) path += texts[node.domain] + ":";
    return path + texts[node.name];
  }

  // "10-40 step", one line an instance; "10- step" if it is open.
  std::string text_of(const RangeRecorder::Snapshot& snapshot,
                      const std::vector<RangeRecorder::Instance>& instances) const {
    std::string text;
    for (const RangeRecorder::Instance& instance : instances) {
      text += std::to_string(instance.start_ns) + "-";
      if (instance.end_ns != 0) text += std::to_string(instance.end_ns);
      text += " " + path_of(snapshot, instance.range) + "\n";
    }
    return text;
  }
  std::string recorded() const {
    const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
    return snapshot.threads.empty() ? "" : text_of(snapshot, snapshot.threads[0].instances);
  }
  std::size_t num_instances() const {
    std::size_t num_instances = 0;
    for (const RangeRecorder::Thread& thread : recorder_.snapshot().threads) {
      num_instances += thread.instances.size() + thread.started.size();
    }
    return num_instances;
  }

  StringTable names_;
  RangeRecorder recorder_{names_, tick};
};

TEST_F(RangeRecorderTest, NestsRangesAndReturnsTheirDepth) {
  recorder_.set_recording(true);
  EXPECT_EQ(recorder_.push(0, "step"), 0);
  EXPECT_EQ(recorder_.push(0, "forward"), 1);
  EXPECT_EQ(recorder_.pop(0), 1);
  EXPECT_EQ(recorder_.push(0, "backward"), 1);
  EXPECT_EQ(recorder_.pop(0), 1);
  EXPECT_EQ(recorder_.pop(0), 0);
  EXPECT_EQ(recorded(),
            "10-60 step\n"
            "20-30 step/forward\n"
            "40-50 step/backward\n");
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  ASSERT_EQ(snapshot.threads.size(), 1u);
  EXPECT_EQ(snapshot.threads[0].tid, this_tid());
  const std::vector<RangeRecorder::Instance>& instances = snapshot.threads[0].instances;
  EXPECT_EQ(instances[0].parent, kNoRow);
  EXPECT_EQ(instances[1].parent, 0u);
  EXPECT_EQ(instances[2].parent, 0u);
}

TEST_F(RangeRecorderTest, GivesOneNameInTwoPlacesTwoRangesAndInOnePlaceOne) {
  recorder_.set_recording(true);
  for (const char* phase : {"forward", "backward", "forward"}) {
    recorder_.push(0, phase);
    recorder_.push(0, "block 0");
    recorder_.pop(0);
    recorder_.pop(0);
  }
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  EXPECT_EQ(snapshot.ranges.size(), 4u);
  EXPECT_EQ(names_.texts().size(), 4u);  // The empty one, and three names.
  const std::vector<RangeRecorder::Instance>& instances = snapshot.threads[0].instances;
  EXPECT_EQ(instances[1].range, instances[5].range);
  EXPECT_NE(instances[1].range, instances[3].range);
}

TEST_F(RangeRecorderTest, OpensTheLevelsOfANameWithSlashesAtOnce) {
  recorder_.set_recording(true);
  recorder_.push(0, "backward/block 3/attention");
  EXPECT_EQ(recorder_.pop(0), 0);
  for (const char* part : {"backward", "block 3", "attention"}) recorder_.push(0, part);
  EXPECT_EQ(recorded(),
            "10-20 backward/block 3/attention\n"
            "30- backward\n"
            "40- backward/block 3\n"
            "50- backward/block 3/attention\n");
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  EXPECT_EQ(snapshot.ranges.size(), 3u);
  EXPECT_EQ(snapshot.threads[0].instances[0].range, snapshot.threads[0].instances[3].range);
}

TEST_F(RangeRecorderTest, NestsEachDomainByItselfBelowTheProgramsOwnRanges) {
  const DomainId library = recorder_.add_domain("NCCL");
  const DomainId other = recorder_.add_domain("CCCL");
  EXPECT_EQ(recorder_.add_domain("NCCL"), library);
  EXPECT_NE(other, library);
  recorder_.set_recording(true);
  recorder_.push(0, "step");
  EXPECT_EQ(recorder_.push(library, "all-reduce"), 0);
  EXPECT_EQ(recorder_.push(library, "ring"), 1);
  EXPECT_EQ(recorder_.push(other, "sort"), 0);
  EXPECT_EQ(recorder_.push(0, "forward"), 1);
  EXPECT_EQ(recorder_.pop(library), 1);
  EXPECT_EQ(recorder_.pop(0), 1);
  EXPECT_EQ(recorder_.pop(other), 0);
  EXPECT_EQ(recorder_.pop(library), 0);
  EXPECT_EQ(recorder_.pop(0), 0);
  EXPECT_EQ(recorded(),
            "10-100 step\n"
            "20-90 step/NCCL:all-reduce\n"
            "30-60 step/NCCL:all-reduce/NCCL:ring\n"
            "40-80 step/CCCL:sort\n"
            "50-70 step/forward\n");
}

TEST_F(RangeRecorderTest, EndsAStartedRangeOnAnotherThread) {
  recorder_.set_recording(true);
  recorder_.push(0, "step");
  const std::uint64_t first = recorder_.start(0, "transfer");
  const std::uint64_t second = recorder_.start(0, "transfer");
  EXPECT_GT(first, 0u);
  EXPECT_NE(first, second);
  EXPECT_EQ(recorder_.push(0, "forward"), 1);
  std::jthread([&] { recorder_.end(first); }).join();
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  ASSERT_EQ(snapshot.threads.size(), 1u);  // That of the start.
  EXPECT_EQ(text_of(snapshot, snapshot.threads[0].started),
            "20-50 transfer\n"
            "30- transfer\n");
  EXPECT_EQ(recorded(),
            "10- step\n"
            "40- step/forward\n");
}

TEST_F(RangeRecorderTest, CountsPopsOfNothing) {
  const DomainId domain = recorder_.add_domain("library");
  recorder_.push(0, "step");
  EXPECT_EQ(recorder_.pop(domain), -1);
  EXPECT_EQ(recorder_.pop(0), 0);
  EXPECT_EQ(recorder_.pop(0), -1);
  recorder_.end(17);
  EXPECT_EQ(recorder_.snapshot().num_stray_pops, 3);
}

TEST_F(RangeRecorderTest, KeepsThreadsApart) {
  constexpr int kNumThreads = 4;
  constexpr int kNumPairs = 500;
  recorder_.set_recording(true);
  std::barrier all_are_there(kNumThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kNumThreads; ++i) {
      threads.emplace_back([&, i] {
        const std::string name = "thread " + std::to_string(i);
        all_are_there.arrive_and_wait();
        for (int pair = 0; pair < kNumPairs; ++pair) {
          recorder_.push(0, name);
          recorder_.push(0, "inner");
          recorder_.pop(0);
          recorder_.pop(0);
        }
      });
    }
    // While they push.
    for (int i = 0; i < 20; ++i) {
      const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
      for (const RangeRecorder::Thread& thread : snapshot.threads) {
        for (const RangeRecorder::Instance& instance : thread.instances) {
          ASSERT_LT(instance.range, snapshot.ranges.size());
        }
      }
    }
  }
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  ASSERT_EQ(snapshot.threads.size(), std::size_t{kNumThreads});
  EXPECT_EQ(snapshot.ranges.size(), std::size_t{2 * kNumThreads});
  for (const RangeRecorder::Thread& thread : snapshot.threads) {
    ASSERT_EQ(thread.instances.size(), std::size_t{2 * kNumPairs});
    for (std::size_t i = 0; i < thread.instances.size(); ++i) {
      EXPECT_EQ(thread.instances[i].range, thread.instances[i % 2].range);
      EXPECT_EQ(thread.instances[i].parent, i % 2 == 0 ? kNoRow : i - 1);
    }
  }
  EXPECT_EQ(snapshot.num_stray_pops, 0);
}

// https://github.com/pytorch/pytorch/issues/193348
TEST_F(RangeRecorderTest, HoldsWhatIsOpenOnlyWhileItDoesNotRecord) {
  constexpr int kNumPairs = 100'000;
  recorder_.push(0, "training");
  for (int i = 0; i < kNumPairs; ++i) {
    recorder_.push(0, "step");
    recorder_.pop(0);
    recorder_.end(recorder_.start(0, "transfer"));
  }
  EXPECT_EQ(recorded(), "10- training\n");
  EXPECT_EQ(num_instances(), 1u);
  recorder_.pop(0);
  EXPECT_EQ(num_instances(), 0u);
}

TEST_F(RangeRecorderTest, HoldsLittleWhereDomainsOverlap) {
  const DomainId library = recorder_.add_domain("library");
  recorder_.push(0, "own");
  for (int i = 0; i < 50'000; ++i) {
    recorder_.push(library, "theirs");
    recorder_.pop(0);
    recorder_.push(0, "own");
    recorder_.pop(library);
  }
  EXPECT_LE(num_instances(), 1024u);
  recorder_.set_recording(true);
  recorder_.push(library, "theirs");
  recorder_.pop(library);
  recorder_.pop(0);
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  const std::vector<RangeRecorder::Instance>& instances = snapshot.threads[0].instances;
  const RangeRecorder::Instance& theirs = instances.back();
  EXPECT_EQ(path_of(snapshot, theirs.range), "own/library:theirs");
  EXPECT_EQ(path_of(snapshot, instances[theirs.parent].range), "own");
  EXPECT_GT(instances[theirs.parent].end_ns, theirs.end_ns);
}

TEST_F(RangeRecorderTest, KeepsAllThatWasOpenWhileItRecorded) {
  recorder_.push(0, "before");
  recorder_.pop(0);
  recorder_.push(0, "across the begin");
  recorder_.set_recording(true);
  recorder_.pop(0);
  recorder_.push(0, "inside");
  recorder_.pop(0);
  recorder_.push(0, "across the end");
  recorder_.set_recording(false);
  recorder_.pop(0);
  recorder_.push(0, "after");
  recorder_.pop(0);
  EXPECT_EQ(recorded(),
            "30-40 across the begin\n"
            "50-60 inside\n"
            "70-90 across the end\n");
}

TEST_F(RangeRecorderTest, KeepsARangeAroundAllOfTheRecording) {
  recorder_.push(0, "epoch");
  const std::uint64_t handle = recorder_.start(0, "transfer");
  recorder_.set_recording(true);
  recorder_.set_recording(false);
  recorder_.pop(0);
  recorder_.end(handle);
  for (int i = 0; i < 1000; ++i) {
    recorder_.push(0, "after");
    recorder_.pop(0);
  }
  EXPECT_EQ(recorded(), "10-40 epoch\n");
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  EXPECT_EQ(text_of(snapshot, snapshot.threads[0].started), "20-50 transfer\n");
}

TEST_F(RangeRecorderTest, CallsAtTheOutermostStepsOnly) {
  std::vector<std::string> calls;
  recorder_.watch_steps(
      "step",
      [&](std::int64_t step, std::int64_t time_ns) {
        calls.push_back("begin " + std::to_string(step) + " at " + std::to_string(time_ns));
      },
      [&](std::int64_t step, std::int64_t time_ns) {
        calls.push_back("end " + std::to_string(step) + " at " + std::to_string(time_ns));
      });
  const DomainId domain = recorder_.add_domain("library");
  recorder_.push(0, "epoch");      // 10
  recorder_.push(0, "step");       // 20
  recorder_.push(0, "forward");    // 30
  recorder_.push(0, "step");       // 40
  recorder_.push(domain, "step");  // 50
  recorder_.pop(domain);           // 60
  recorder_.pop(0);                // 70
  recorder_.pop(0);                // 80
  recorder_.pop(0);                // 90
  recorder_.push(0, "steps");      // 100
  recorder_.pop(0);                // 110
  recorder_.push(0, "step");       // 120
  recorder_.pop(0);                // 130
  recorder_.end(recorder_.start(0, "step"));
  EXPECT_EQ(calls, (std::vector<std::string>{"begin 0 at 20", "end 0 at 90", "begin 1 at 120",
                                             "end 1 at 130"}));
}

TEST_F(RangeRecorderTest, MayBeUsedInTheCallbacks) {
  recorder_.set_recording(true);
  recorder_.watch_steps(
      "step", [](std::int64_t, std::int64_t) {},
      [&](std::int64_t, std::int64_t) {
        recorder_.push(0, "fence");
        recorder_.pop(0);
        recorder_.set_recording(false);
        EXPECT_EQ(recorder_.snapshot().threads.size(), 1u);
      });
  recorder_.push(0, "step");
  recorder_.pop(0);
  EXPECT_EQ(recorded(), "10-20 step\n30-40 fence\n");
}

TEST_F(RangeRecorderTest, KnowsTheCurrentRangeOfThisThreadAndOfTheSteps) {
  recorder_.watch_steps("step", nullptr, nullptr);
  EXPECT_EQ(recorder_.current_range(), kNoRow);
  recorder_.push(0, "setup");
  EXPECT_EQ(recorder_.step_thread_range(), kNoRow);  // No step yet.
  recorder_.pop(0);
  recorder_.push(0, "step");
  recorder_.push(0, "backward");
  recorder_.push(recorder_.add_domain("library"), "theirs");
  std::jthread([&] {
    EXPECT_EQ(recorder_.current_range(), kNoRow);
    recorder_.push(0, "node");
    const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
    EXPECT_EQ(path_of(snapshot, recorder_.current_range()), "node");
    EXPECT_EQ(path_of(snapshot, recorder_.step_thread_range()), "step/backward");
    recorder_.pop(0);
  }).join();
  EXPECT_EQ(path_of(recorder_.snapshot(), recorder_.current_range()), "step/backward");
  recorder_.pop(0);
  EXPECT_EQ(path_of(recorder_.snapshot(), recorder_.step_thread_range()), "step");
  recorder_.pop(0);
  EXPECT_EQ(recorder_.step_thread_range(), kNoRow);
}

TEST_F(RangeRecorderTest, NeverGoesBackInTimeOnAThread) {
  recorder_.set_recording(true);
  recorder_.push(0, "step");
  recorder_.push(0, "forward");
  clock_ns = -1000;  // The wall clock was set back.
  recorder_.push(0, "block 0");
  recorder_.pop(0);
  recorder_.pop(0);
  clock_ns = 90;
  recorder_.pop(0);
  EXPECT_EQ(recorded(),
            "10-100 step\n"
            "20-20 step/forward\n"
            "20-20 step/forward/block 0\n");
}

TEST(RangeRecorder, TellsTwoRecordersOnOneThreadApart) {
  StringTable names;
  RangeRecorder first(names, tick);
  RangeRecorder second(names, tick);
  first.push(0, "step");
  EXPECT_EQ(second.push(0, "step"), 0);
  EXPECT_EQ(first.push(0, "forward"), 1);
  EXPECT_EQ(second.pop(0), 0);
  EXPECT_EQ(second.pop(0), -1);
  EXPECT_EQ(first.pop(0), 1);
  EXPECT_EQ(first.snapshot().num_stray_pops, 0);
}

TEST(RangeRecorder, ReadsTheWallClock) {
  StringTable names;
  RangeRecorder recorder(names);
  const std::int64_t before_ns = unix_now_ns();
  recorder.push(0, "step");
  const std::int64_t start_ns = recorder.snapshot().threads[0].instances[0].start_ns;
  EXPECT_GE(start_ns, before_ns);
  EXPECT_LE(start_ns, unix_now_ns());
  EXPECT_GT(start_ns, 1'700'000'000'000'000'000);  // 2023
}

}  // namespace
}  // namespace steplens
