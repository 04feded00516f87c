#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace steplens {

/// A thread that calls `call` in the middle of every period, so that each call stands for the whole
/// of its period: the k-th at (k + 1/2) periods after construction. Calls never overlap; a call
/// that outlasts its period makes the next ones be left out, not late.
class PeriodicThread {
 public:
  [[nodiscard]] PeriodicThread(std::chrono::nanoseconds period, std::function<void()> call);
  ~PeriodicThread();

  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  /// Returns when no call runs any more and none will. What `call` wrote is visible then.
  void stop() noexcept;

  /// Calls that threw. To be read after `stop`.
  std::int64_t num_failed_calls() const { return num_failed_calls_; }

 private:
  void run(std::chrono::nanoseconds period) noexcept;

  std::function<void()> call_;
  std::mutex mutex_;
  std::condition_variable stop_requested_;
  bool is_stopping_ = false;  // Guarded by mutex_.
  std::int64_t num_failed_calls_ = 0;
  std::thread thread_;  // Last: it uses the members above.
};

}  // namespace steplens
