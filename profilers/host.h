#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "profilers/proc_text.h"

namespace steplens {

/// Pid -> parent's pid, of all processes that can be seen.
using ProcessParents = std::map<std::int64_t, std::int64_t>;

/// `pid` and all its descendants.
std::set<std::int64_t> with_descendants(std::int64_t pid, const ProcessParents& parents);

/// The host as the kernel's files show it. Numbers that it does not show are absent. Reads anew at
/// each call; thread-compatible.
class Host {
 public:
  /// Other folders than the real ones are for tests.
  explicit Host(std::filesystem::path proc_folder = "/proc",
                std::filesystem::path sys_folder = "/sys");

  std::optional<std::string> cpu_model() const;
  std::optional<double> mean_cpu_mhz() const;
  std::optional<double> load_average() const;  // Over one minute.
  std::optional<CpuJiffies> cpu_jiffies() const;
  std::optional<std::int64_t> memory_bytes() const;
  std::optional<std::int64_t> available_memory_bytes() const;
  std::optional<std::string> kernel_version() const;  // "6.1.0-18-amd64"

  /// The frequency governors of the CPUs, each named once: "performance", "performance, powersave".
  /// Absent in most virtual machines.
  std::optional<std::string> governor() const;

  /// Of this process, since it began or since the last reset.
  std::optional<std::int64_t> peak_rss_bytes() const;
  /// Starts the peak of this process anew. False if the kernel does not let us.
  bool reset_peak_rss() const;
  std::optional<std::uint64_t> effective_capabilities() const;  // Of this process.

  /// Whether the NVIDIA driver gives counters to administrators only. Absent without that driver.
  std::optional<bool> is_profiling_admin_only() const;

  ProcessParents process_parents() const;

  /// CPUs that this process may use.
  static int num_cpus();

  /// CPU, memory, kernel, governor; null for what is not shown. No names of host and user.
  nlohmann::json environment() const;

 private:
  std::filesystem::path proc_folder_;
  std::filesystem::path sys_folder_;
};

}  // namespace steplens
