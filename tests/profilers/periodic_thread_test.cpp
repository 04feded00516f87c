#include "profilers/periodic_thread.h"

#include <atomic>
#include <latch>
#include <optional>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace steplens {
namespace {

using namespace std::chrono_literals;

TEST(PeriodicThread, CallsOnAnotherThreadUntilItIsStopped) {
  std::latch third_call(3);
  std::atomic<int> num_calls = 0;
  std::thread::id caller;
  PeriodicThread thread(1ms, [&] {
    caller = std::this_thread::get_id();
    if (++num_calls <= 3) third_call.count_down();
  });
  third_call.wait();
  thread.stop();
  const int num_at_stop = num_calls;
  EXPECT_GE(num_at_stop, 3);
  EXPECT_NE(caller, std::this_thread::get_id());
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(num_calls, num_at_stop);
  EXPECT_EQ(thread.num_failed_calls(), 0);
}

TEST(PeriodicThread, WaitsForTheCallThatRuns) {
  std::latch begun(1);
  bool is_finished = false;  // Not atomic: `stop` is what makes it visible.
  PeriodicThread thread(1ms, [&] {
    if (is_finished) return;
    begun.count_down();
    std::this_thread::sleep_for(20ms);
    is_finished = true;
  });
  begun.wait();
  thread.stop();
  EXPECT_TRUE(is_finished);
}

TEST(PeriodicThread, StopsAtOnceInALongPeriod) {
  bool was_called = false;
  PeriodicThread thread(1h, [&] { was_called = true; });
  thread.stop();
  EXPECT_FALSE(was_called);
}

TEST(PeriodicThread, CanBeStoppedTwiceOrNotAtAll) {
  PeriodicThread thread(1h, [] {});
  thread.stop();
  thread.stop();
  const PeriodicThread stopped_by_its_destructor(1h, [] {});
}

TEST(PeriodicThread, CountsCallsThatThrowAndGoesOn) {
  std::latch third_call(3);
  std::atomic<int> num_calls = 0;
  PeriodicThread thread(1ms, [&] {
    if (++num_calls <= 3) third_call.count_down();
    if (num_calls == 2) throw std::runtime_error("once");
  });
  third_call.wait();
  thread.stop();
  EXPECT_EQ(thread.num_failed_calls(), 1);
}

TEST(PeriodicThread, LeavesOutWhatALongCallMissed) {
  constexpr auto kPeriod = 1ms;
  constexpr int kNumMissed = 30;
  std::latch tenth_call(10);
  std::atomic<int> num_calls = 0;
  const auto begin = std::chrono::steady_clock::now();
  PeriodicThread thread(kPeriod, [&] {
    if (++num_calls == 1) std::this_thread::sleep_for(kNumMissed * kPeriod);
    if (num_calls <= 10) tenth_call.count_down();
  });
  tenth_call.wait();
  thread.stop();
  const auto num_periods = (std::chrono::steady_clock::now() - begin) / kPeriod + 1;
  // However slow the machine is: a call has a period of its own, and the first one used up 30.
  EXPECT_LE(num_calls, num_periods - kNumMissed + 1);
}

}  // namespace
}  // namespace steplens
