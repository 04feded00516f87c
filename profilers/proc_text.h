#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace steplens {

// What the kernel's text files say. Pure functions on a file's content; absent where the content
// does not have it, as on other architectures and in containers. Formats: proc(5).

/// /proc/cpuinfo: "model name" of the first CPU.
std::optional<std::string> parse_cpu_model(std::string_view cpuinfo);

/// /proc/cpuinfo: mean of "cpu MHz" over all CPUs.
std::optional<double> parse_mean_cpu_mhz(std::string_view cpuinfo);

/// /proc/loadavg: average over one minute.
std::optional<double> parse_load_average(std::string_view loadavg);

/// Time of all CPUs since boot, in clock ticks.
struct CpuJiffies {
  std::int64_t steal = 0;  // Taken by other guests of the same host.
  std::int64_t total = 0;
  bool operator==(const CpuJiffies&) const = default;
};
/// /proc/stat, first line. Guest time is inside user time there: not added again.
std::optional<CpuJiffies> parse_cpu_jiffies(std::string_view stat);

/// /proc/meminfo: "MemTotal".
std::optional<std::int64_t> parse_memory_bytes(std::string_view meminfo);
/// /proc/meminfo: "MemAvailable".
std::optional<std::int64_t> parse_available_memory_bytes(std::string_view meminfo);

/// /proc/<pid>/status: "VmHWM", the largest resident set so far.
std::optional<std::int64_t> parse_peak_rss_bytes(std::string_view status);

/// /proc/<pid>/status: "CapEff", the effective capabilities as a mask.
std::optional<std::uint64_t> parse_effective_capabilities(std::string_view status);

/// /proc/<pid>/stat: the parent's pid. The program's name before it may hold blanks and brackets.
std::optional<std::int64_t> parse_parent_pid(std::string_view stat);

/// /proc/driver/nvidia/params: whether performance counters are for administrators only.
std::optional<bool> parse_is_profiling_admin_only(std::string_view params);

/// `text` without blanks and line ends around it.
std::string_view trimmed(std::string_view text);

}  // namespace steplens
