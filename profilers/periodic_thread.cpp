#include "profilers/periodic_thread.h"

#include <exception>
#include <utility>

#include "harness/error.h"

namespace steplens {

PeriodicThread::PeriodicThread(std::chrono::nanoseconds period, std::function<void()> call)
    : call_(std::move(call)) {
  SL_CHECK(period.count() > 0);
  thread_ = std::thread([this, period] { run(period); });
}

PeriodicThread::~PeriodicThread() { stop(); }

void PeriodicThread::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
  }
  stop_requested_.notify_one();
  thread_.join();
}

void PeriodicThread::run(std::chrono::nanoseconds period) noexcept {
  auto next = std::chrono::steady_clock::now() + period / 2;
  std::unique_lock lock(mutex_);
  while (!stop_requested_.wait_until(lock, next, [this] { return is_stopping_; })) {
    lock.unlock();
    try {
      call_();
    } catch (const std::exception&) {
      ++num_failed_calls_;
    }
    next += period;
    if (const auto late = std::chrono::steady_clock::now() - next; late.count() > 0) {
      next += (late / period + 1) * period;
    }
    lock.lock();
  }
}

}  // namespace steplens
