#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "profilers/trace/string_table.h"

namespace steplens {

/// Wall clock, ns since 1970: CUPTI's own epoch.
std::int64_t unix_now_ns();

/// What a recorder knows of a domain: 0 is NVTX's default domain.
using DomainId = std::uint32_t;

/// Range pushes and pops of all threads: the tree of names, and when each was open. Times are unix
/// ns. Thread-safe; a thread waits only for a new name and for `snapshot`.
///
/// A name with slashes opens its parts at once: "backward/block 3/attention" is three levels.
/// Closed ranges are kept only while recording, so that a process of any length holds what is open
/// and the window's.
class RangeRecorder {
 public:
  using Clock = std::int64_t (*)();

  /// `names`: shared with other recorders; outlives this.
  explicit RangeRecorder(StringTable& names, Clock now_ns = unix_now_ns);
  ~RangeRecorder();
  RangeRecorder(const RangeRecorder&) = delete;
  RangeRecorder& operator=(const RangeRecorder&) = delete;

  DomainId add_domain(std::string_view name);

  /// Open and close on the calling thread; each domain nests by itself. Return the depth before the
  /// push and after the pop, or -1 for a pop of nothing (counted).
  int push(DomainId domain, std::string_view name);
  int pop(DomainId domain);

  /// Ranges that may end on another thread, outside of all nesting: neither steps nor around
  /// anything. Return a handle > 0.
  std::uint64_t start(DomainId domain, std::string_view name);
  void end(std::uint64_t handle);

  /// Called on the thread that opens or closes the outermost range of this name in the default
  /// domain, after the opening and after the closing. The first argument counts from 0; the second
  /// is the time of it. Set before the first push.
  using StepCallback = std::function<void(std::int64_t step_number, std::int64_t time_ns)>;
  void watch_steps(std::string_view name, StepCallback on_begin, StepCallback on_end);

  /// Whether ranges are kept from now on: all that are open at some time while it is on.
  void set_recording(bool is_recording);

  /// Innermost range of the default domain on the calling thread; kNoRow if none.
  std::uint32_t current_range();
  /// The same of the thread that opened a step last: what a worker thread's ranges lie below.
  std::uint32_t step_thread_range() const { return step_thread_range_; }

  struct Instance {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;  // 0: still open.
    std::uint32_t range = kNoRow;
    std::uint32_t parent = kNoRow;  // Index among the thread's instances.
  };
  struct Thread {
    std::uint64_t tid = 0;
    std::vector<Instance> instances;
    std::vector<Instance> started;  // By `start`; without parent.
  };
  struct Snapshot {
    std::vector<Range> ranges;
    std::vector<Thread> threads;
    std::int64_t num_stray_pops = 0;
  };
  /// What was recorded so far, what is open included. Other threads may go on.
  Snapshot snapshot() const;

 private:
  struct ThreadState;
  struct StartedRange {
    std::uint64_t handle = 0;
    Instance instance;
    std::uint64_t tid = 0;
  };

  ThreadState& this_thread();
  bool is_kept(const Instance& instance) const {
    return is_recording_ || instance.start_ns <= recorded_until_ns_;
  }
  std::uint32_t range_of(ThreadState& thread, DomainId domain, std::uint32_t parent,
                         std::string_view name);
  std::uint32_t intern(DomainId domain, std::uint32_t parent, std::string_view name);

  StringTable& names_;
  const Clock now_ns_;
  const std::uint64_t serial_;  // Tells recorders apart in thread-local memory.
  std::atomic<bool> is_recording_ = false;
  std::atomic<std::int64_t> recorded_until_ns_ = std::numeric_limits<std::int64_t>::min();
  std::string step_name_;
  StepCallback on_step_begin_, on_step_end_;
  std::atomic<std::int64_t> num_steps_ = 0;
  std::atomic<std::uint32_t> step_thread_range_ = kNoRow;
  std::atomic<std::int64_t> num_stray_pops_ = 0;

  mutable std::mutex mutex_;  // Guards what follows.
  std::vector<std::unique_ptr<ThreadState>> threads_;
  std::vector<Range> ranges_;
  std::vector<StringId> domains_ = {0};
  std::map<std::tuple<std::uint32_t, StringId, StringId>, std::uint32_t> children_;
  std::vector<StartedRange> started_;   // Open.
  std::vector<StartedRange> finished_;  // Closed and kept.
  std::uint64_t num_started_ = 0;
};

}  // namespace steplens
