#include "harness/end_observer.h"

#include <utility>

namespace steplens {

EndObserver::EndObserver(WaitForEnd wait_for_end, Clock now_ns)
    : wait_for_end_(std::move(wait_for_end)),
      now_ns_(std::move(now_ns)),
      thread_([this] { observe(); }) {}

EndObserver::~EndObserver() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EndObserver::expect_end() {
  {
    const std::lock_guard lock(mutex_);
    ++num_expected_;
  }
  changed_.notify_all();
}

std::int64_t EndObserver::time_of(std::size_t end_index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ != nullptr || times_ns_.size() > end_index; });
  if (times_ns_.size() > end_index) return times_ns_[end_index];
  std::rethrow_exception(failure_);
}

void EndObserver::observe() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || times_ns_.size() < num_expected_; });
    if (is_stopping_) return;
    const std::size_t end_index = times_ns_.size();
    lock.unlock();
    std::int64_t time_ns = 0;
    std::exception_ptr failure;
    try {
      wait_for_end_(end_index);
      time_ns = now_ns_();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      failure_ = failure;
    } else {
      times_ns_.push_back(time_ns);
    }
    changed_.notify_all();
    if (failure) return;
  }
}

}  // namespace steplens
