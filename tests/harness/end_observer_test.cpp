#include "harness/end_observer.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>

#include <gtest/gtest.h>

namespace steplens {
namespace {

// A device whose steps end when the test says so, and a clock that the test sets.
class FakeDevice {
 public:
  void end(std::size_t index, std::int64_t time_ns) {
    const std::lock_guard lock(mutex_);
    now_ns_ = time_ns;
    end_ns_[index] = time_ns;
    changed_.notify_all();
  }
  void wait_for_end(std::size_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_ns_.contains(index); });
  }
  std::int64_t now_ns() {
    const std::lock_guard lock(mutex_);
    return now_ns_;
  }
  void advance_to(std::int64_t time_ns) {
    const std::lock_guard lock(mutex_);
    now_ns_ = time_ns;
  }
  EndObserver observer() {
    return {[this](std::size_t index) { wait_for_end(index); }, [this] { return now_ns(); }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, std::int64_t> end_ns_;
  std::int64_t now_ns_ = 0;
};

TEST(EndObserver, ReadsTheClockWhenTheEndComesNotWhenTheHostAsks) {
  FakeDevice device;
  EndObserver observer = device.observer();
  observer.expect_end();
  device.end(0, 1'000);
  EXPECT_EQ(observer.time_of(0), 1'000);

  observer.expect_end();
  device.end(1, 2'000);
  while (observer.time_of(1) != 2'000) {
  }
  // The host is busy with the next step for long; what it asks for then has been read before.
  observer.expect_end();
  device.advance_to(9'000);
  EXPECT_EQ(observer.time_of(1), 2'000);
  EXPECT_EQ(observer.time_of(0), 1'000);
  device.end(2, 10'000);
  EXPECT_EQ(observer.time_of(2), 10'000);
}

TEST(EndObserver, ObservesEndsThatCameBeforeTheyWereExpected) {
  FakeDevice device;
  for (std::size_t i = 0; i < 100; ++i) device.end(i, 5);
  EndObserver observer = device.observer();
  for (int i = 0; i < 100; ++i) observer.expect_end();
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(observer.time_of(i), 5);
}

TEST(EndObserver, HandsOnWhatWaitingThrew) {
  EndObserver observer(
      [](std::size_t index) {
        if (index == 1) throw std::runtime_error("illegal address");
      },
      [] { return std::int64_t{7}; });
  observer.expect_end();
  observer.expect_end();
  observer.expect_end();
  EXPECT_EQ(observer.time_of(0), 7);
  for (const std::size_t index : {1U, 2U}) {
    try {
      observer.time_of(index);
      FAIL() << "end " << index;
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "illegal address");
    }
  }
}

TEST(EndObserver, EndsWithoutWaitingForWhatIsStillQueued) {
  std::atomic<int> num_waited = 0;
  FakeDevice device;
  {
    EndObserver observer(
        [&](std::size_t index) {
          ++num_waited;
          device.wait_for_end(index);
        },
        [] { return std::int64_t{0}; });
    observer.expect_end();
    observer.expect_end();
    device.end(0, 1);
    observer.time_of(0);
    device.end(1, 2);
  }
  EXPECT_LE(num_waited, 2);
}

}  // namespace
}  // namespace steplens
