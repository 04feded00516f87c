#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "harness/trace/trace_reader.h"

namespace steplens {

/// What a loader and those who wait for it tell each other; any thread, any time.
struct LoadProgress {
  ReadProgress read;
  std::atomic<std::size_t> num_total_rows = 0;  // 0: not known yet.
  std::atomic<const char*> stage = "reading";   // Of static duration.

  /// 0 to 1, of the stage "reading"; negative while it is not known.
  float done_ratio() const {
    const std::size_t num_total = num_total_rows;
    if (num_total == 0) return -1;
    return std::min(1.0F, static_cast<float>(read.num_done_rows) / static_cast<float>(num_total));
  }
  void cancel() { read.is_cancelled = true; }
  bool is_cancelled() const { return read.is_cancelled; }
};

}  // namespace steplens
