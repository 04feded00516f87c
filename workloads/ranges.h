#pragma once

#include <cstdint>

#include <nvtx3/nvToolsExt.h>

namespace steplens {

/// Switches the ranges of this process on or off; `instrumentation=minimal` switches them off.
/// Set once, before the first step.
void enable_ranges(bool is_enabled);
bool ranges_are_enabled();

/// Ranges opened since the process began, all threads.
std::int64_t num_ranges_opened();

/// Names the enclosing scope on every profiler's timeline, on the calling thread: step, micro-step,
/// the phases data, forward, backward, clip, optimizer, and the modules. NVTX only, so that Nsight
/// Systems reads the same ranges. `name` must outlive the call only.
class Range {
 public:
  [[nodiscard]] explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool is_open_;
};

}  // namespace steplens
