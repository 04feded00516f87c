#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

#include "profilers/host.h"

namespace steplens {

/// Counters of host and process that only grow; the difference of two is what a block used.
struct HostCounters {
  std::optional<CpuJiffies> jiffies;          // Of the whole host.
  std::int64_t cpu_time_ns = 0;               // User + system time of this process, all threads.
  std::int64_t num_involuntary_switches = 0;  // Times this process was taken off a CPU.
};
HostCounters read_host_counters(const Host& host);

/// What is a state, not a difference.
struct HostState {
  std::optional<double> load_average;  // Over the last minute, this process included.
  std::optional<std::int64_t> peak_rss_bytes;
  bool is_peak_rss_reset = false;  // False: the peak is since the process began.
};

/// load_average, steal_ratio (time taken by other guests / time of all CPUs), cpu_time_ns,
/// num_involuntary_switches, peak_rss_bytes, is_peak_rss_reset; null with a reason in
/// `absent_reasons`.
nlohmann::json host_usage(const HostCounters& before, const HostCounters& after,
                          const HostState& state);

}  // namespace steplens
