#pragma once

#include <cstdint>
#include <string>

#include <nvtx3/nvToolsExt.h>

#include "harness/trace/trace.h"

namespace steplens {

/// Switches the ranges of this process on or off; `instrumentation=minimal` switches them off.
/// Set once, before the first step.
void enable_ranges(bool is_enabled);
bool ranges_are_enabled();

/// Ranges opened since the process began, all threads.
std::int64_t num_ranges_opened();

/// What is open on this thread below the step's phase, joined by slashes: "block 3/attention".
std::string open_modules();

/// The innermost phase open on this thread; kNone if there is none.
Phase open_phase();

/// Changes whenever `open_modules` or `open_phase` of this thread may.
std::uint64_t open_ranges_version();

/// Called on the thread that opened or closed a range, behind it; null: nothing is. One at a time.
using RangesObserver = void (*)();
void observe_ranges(RangesObserver observer);

/// Names the enclosing scope on every profiler's timeline, on the calling thread: step, micro-step,
/// the phases data, forward, backward, clip, optimizer, and the modules. NVTX only, so that Nsight
/// Systems reads the same ranges. `name` must outlive the call only.
class ScopedRange {
 public:
  [[nodiscard]] explicit ScopedRange(const char* name);
  ~ScopedRange();
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;

 private:
  bool is_open_;
};

}  // namespace steplens
