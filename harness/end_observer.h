#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace steplens {

/// Reads the clock when each of a queue of ends comes, on a thread of its own, so that the reading
/// is late by a wake-up only, whatever the thread that enqueues the work is busy with. (Read by the
/// enqueuing thread, an end is late by the time that enqueuing the next step takes, and a block's
/// rate is off by that much: 2.5 % were seen.)
class EndObserver {
 public:
  /// Returns once the end has come; may throw.
  using WaitForEnd = std::function<void(std::size_t end_index)>;
  using Clock = std::function<std::int64_t()>;  // ns

  EndObserver(WaitForEnd wait_for_end, Clock now_ns);
  /// Waits for the end that is being waited for, and drops those behind it.
  ~EndObserver();
  EndObserver(const EndObserver&) = delete;
  EndObserver& operator=(const EndObserver&) = delete;

  /// One more end to wait for, behind those before it; its index is their number.
  void expect_end();
  /// Waits until this end, which must be expected, has been observed; returns its time. Throws what
  /// waiting for it, or for one before it, threw.
  std::int64_t time_of(std::size_t end_index);

 private:
  void observe();

  const WaitForEnd wait_for_end_;
  const Clock now_ns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t num_expected_ = 0;
  std::vector<std::int64_t> times_ns_;
  std::exception_ptr failure_;
  bool is_stopping_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace steplens
