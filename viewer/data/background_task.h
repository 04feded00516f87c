#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "viewer/data/load_progress.h"

namespace steplens {

/// One piece of work on a thread of its own. All functions belong to one thread; the work gets a
/// LoadProgress, which it looks at to see whether it is cancelled. Destroying cancels and waits.
template <class Result>
class BackgroundTask {
 public:
  using Work = std::function<Result(LoadProgress&)>;

  BackgroundTask() = default;
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  ~BackgroundTask() { stop(); }

  /// Ends what runs, and begins. `on_end` is called on the other thread, to wake up this one.
  void start(Work work, std::function<void()> on_end = {}) {
    stop();
    state_ = std::make_unique<State>();
    State* state = state_.get();
    state->thread = std::thread([state, work = std::move(work), on_end = std::move(on_end)] {
      try {
        state->result = work(state->progress);
      } catch (const std::exception& error) {
        state->error = error.what();
      }
      state->is_done = true;
      if (on_end) on_end();
    });
  }

  bool is_running() const { return state_ != nullptr && !state_->is_done; }
  /// Of the running work.
  const LoadProgress& progress() const { return state_->progress; }
  void cancel() {
    if (state_ != nullptr) state_->progress.cancel();
  }

  /// The result, once, when it is there.
  std::optional<Result> take() {
    if (state_ == nullptr || !state_->is_done) return std::nullopt;
    state_->thread.join();
    std::optional<Result> result = std::move(state_->result);
    error_ = std::move(state_->error);
    state_ = nullptr;
    return result;
  }
  /// Why the last work that `take` saw end has no result.
  const std::string& error() const { return error_; }

 private:
  struct State {
    LoadProgress progress;
    std::optional<Result> result;
    std::string error;
    std::atomic<bool> is_done = false;
    std::thread thread;
  };

  void stop() {
    if (state_ == nullptr) return;
    state_->progress.cancel();
    state_->thread.join();
    state_ = nullptr;
  }

  std::unique_ptr<State> state_;
  std::string error_;
};

}  // namespace steplens
