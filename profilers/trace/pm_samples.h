#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace steplens {

/// What a sampling of the GPU's hardware counters gave. Plain data: whoever sampled is gone.
struct PmSamples {
  struct Counter {
    std::string_view name;      // Of the trace's track: "sm_active".
    std::string_view unit;      // "ratio" of what the hardware could do at most, 0 to 1; or "MHz".
    std::string absent_reason;  // Empty: it was sampled.
  };
  std::vector<Counter> counters;
  std::int64_t interval_ns = 0;
  std::vector<std::int64_t> times_ns;  // Unix ns, the middle of each sample, ascending.
  /// Of each sample one value a sampled counter, in the order of `counters` and in its unit. NaN:
  /// that one could not be evaluated.
  std::vector<double> values;
  std::int64_t num_overflows = 0;        // The GPU's buffer was full: samples are lost.
  std::int64_t num_missing_samples = 0;  // Between others, by their times.
  std::int64_t num_invalid_samples = 0;  // Without a length, or out of order; left out.
  std::string failure;                   // Why sampling ended early; empty if it did not.
};

}  // namespace steplens
