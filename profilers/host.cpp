#include "profilers/host.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace steplens {
namespace {

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

/// `parse` of a file's content; absent if there is no such file.
template <typename Parse>
auto parsed(const std::filesystem::path& path, const Parse& parse) -> decltype(parse("")) {
  const std::optional<std::string> text = read_text(path);
  if (!text) return std::nullopt;
  return parse(*text);
}

/// The number that `name` ends with after `prefix`: pid of "1234", index of "cpu7".
std::optional<std::int64_t> number_after(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

/// The folders `prefix`<number> in `folder`, by number. Empty if it cannot be read.
std::map<std::int64_t, std::filesystem::path> numbered_folders(const std::filesystem::path& folder,
                                                               std::string_view prefix) {
  std::map<std::int64_t, std::filesystem::path> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    if (const auto number = number_after(prefix, entry->path().filename().string())) {
      found.emplace(*number, entry->path());
    }
    entry.increment(error);
  }
  return found;
}

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace

std::set<std::int64_t> with_descendants(std::int64_t pid, const ProcessParents& parents) {
  std::set<std::int64_t> family = {pid};
  // Pids are reused, so a child's can be lower than its parent's: repeat until nothing is added.
  for (std::size_t num_before = 0; num_before != family.size();) {
    num_before = family.size();
    for (const auto& [child, parent] : parents) {
      if (family.contains(parent)) family.insert(child);
    }
  }
  return family;
}

Host::Host(std::filesystem::path proc_folder, std::filesystem::path sys_folder)
    : proc_folder_(std::move(proc_folder)),
      sys_folder_(std::move(sys_folder)) {}

std::optional<std::string> Host::cpu_model() const {
  return parsed(proc_folder_ / "cpuinfo", parse_cpu_model);
}

std::optional<double> Host::mean_cpu_mhz() const {
  return parsed(proc_folder_ / "cpuinfo", parse_mean_cpu_mhz);
}

std::optional<double> Host::load_average() const {
  return parsed(proc_folder_ / "loadavg", parse_load_average);
}

std::optional<CpuJiffies> Host::cpu_jiffies() const {
  return parsed(proc_folder_ / "stat", parse_cpu_jiffies);
}

std::optional<std::int64_t> Host::memory_bytes() const {
  return parsed(proc_folder_ / "meminfo", parse_memory_bytes);
}

std::optional<std::int64_t> Host::available_memory_bytes() const {
  return parsed(proc_folder_ / "meminfo", parse_available_memory_bytes);
}

std::optional<std::string> Host::kernel_version() const {
  const std::optional<std::string> release = read_text(proc_folder_ / "sys/kernel/osrelease");
  if (!release) return std::nullopt;
  return std::string(trimmed(*release));
}

std::optional<std::string> Host::governor() const {
  std::set<std::string> governors;
  for (const auto& [index, folder] : numbered_folders(sys_folder_ / "devices/system/cpu", "cpu")) {
    const std::optional<std::string> text = read_text(folder / "cpufreq/scaling_governor");
    if (text) governors.emplace(trimmed(*text));
  }
  if (governors.empty()) return std::nullopt;
  std::string joined;
  for (const std::string& governor : governors) {
    if (!joined.empty()) joined += ", ";
    joined += governor;
  }
  return joined;
}

std::optional<std::int64_t> Host::peak_rss_bytes() const {
  return parsed(proc_folder_ / "self/status", parse_peak_rss_bytes);
}

bool Host::reset_peak_rss() const {
  // proc(5): 5 resets the peak resident set size.
  std::ofstream file(proc_folder_ / "self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

std::optional<std::uint64_t> Host::effective_capabilities() const {
  return parsed(proc_folder_ / "self/status", parse_effective_capabilities);
}

std::optional<bool> Host::is_profiling_admin_only() const {
  return parsed(proc_folder_ / "driver/nvidia/params", parse_is_profiling_admin_only);
}

ProcessParents Host::process_parents() const {
  ProcessParents parents;
  for (const auto& [pid, folder] : numbered_folders(proc_folder_, "")) {
    // A process may end between the listing and the reading.
    if (const auto parent = parsed(folder / "stat", parse_parent_pid)) parents[pid] = *parent;
  }
  return parents;
}

int Host::num_cpus() {
  // glibc counts the CPUs in this process's affinity mask.
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

nlohmann::json Host::environment() const {
  return {{"cpu_model", or_null(cpu_model())},
          {"num_cpus", num_cpus()},
          {"memory_bytes", or_null(memory_bytes())},
          {"kernel_version", or_null(kernel_version())},
          {"governor", or_null(governor())}};
}

}  // namespace steplens
