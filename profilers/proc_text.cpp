#include "profilers/proc_text.h"

#include <charconv>
#include <vector>

namespace steplens {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// The first number in `text`, after blanks.
template <typename T>
std::optional<T> number(std::string_view text, int base = 10) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return std::nullopt;
  T value{};
  const char* end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<T>) {
    result = std::from_chars(text.data() + begin, end, value);
  } else {
    result = std::from_chars(text.data() + begin, end, value, base);
  }
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

/// Calls `visit(value)` for each line "key<blanks>: value" until it returns false.
template <typename Visit>
void for_each_value(std::string_view text, std::string_view key, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || trimmed(line.substr(0, colon)) != key) continue;
    if (!visit(trimmed(line.substr(colon + 1)))) return;
  }
}

std::optional<std::string_view> first_value(std::string_view text, std::string_view key) {
  std::optional<std::string_view> found;
  for_each_value(text, key, [&found](std::string_view value) {
    found = value;
    return false;
  });
  return found;
}

/// "24684096 kB" -> bytes. The kernel's kB are 1024 bytes.
std::optional<std::int64_t> bytes_of(std::string_view text, std::string_view key) {
  const std::optional<std::string_view> value = first_value(text, key);
  if (!value || !value->ends_with("kB")) return std::nullopt;
  const auto kibibytes = number<std::int64_t>(*value);
  if (!kibibytes) return std::nullopt;
  return *kibibytes * 1024;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::optional<std::string> parse_cpu_model(std::string_view cpuinfo) {
  const std::optional<std::string_view> model = first_value(cpuinfo, "model name");
  if (!model || model->empty()) return std::nullopt;
  return std::string(*model);
}

std::optional<double> parse_mean_cpu_mhz(std::string_view cpuinfo) {
  double sum_mhz = 0;
  int num_cpus = 0;
  for_each_value(cpuinfo, "cpu MHz", [&](std::string_view value) {
    if (const auto mhz = number<double>(value)) {
      sum_mhz += *mhz;
      ++num_cpus;
    }
    return true;
  });
  if (num_cpus == 0) return std::nullopt;
  return sum_mhz / num_cpus;
}

std::optional<double> parse_load_average(std::string_view loadavg) {
  return number<double>(loadavg);
}

std::optional<CpuJiffies> parse_cpu_jiffies(std::string_view stat) {
  if (!stat.starts_with("cpu ")) return std::nullopt;
  std::string_view rest = stat.substr(4, stat.find('\n') - 4);
  // user nice system idle iowait irq softirq steal: each of them disjoint.
  constexpr int kNumDisjoint = 8;
  CpuJiffies jiffies;
  for (int column = 0; column < kNumDisjoint; ++column) {
    const auto ticks = number<std::int64_t>(rest);
    if (!ticks) return std::nullopt;
    jiffies.total += *ticks;
    jiffies.steal = *ticks;  // Steal is the last one.
    rest.remove_prefix(rest.find_first_not_of(kBlanks));
    rest.remove_prefix(std::min(rest.size(), rest.find_first_of(kBlanks)));
  }
  return jiffies;
}

std::optional<std::int64_t> parse_memory_bytes(std::string_view meminfo) {
  return bytes_of(meminfo, "MemTotal");
}

std::optional<std::int64_t> parse_available_memory_bytes(std::string_view meminfo) {
  return bytes_of(meminfo, "MemAvailable");
}

std::optional<std::int64_t> parse_peak_rss_bytes(std::string_view status) {
  return bytes_of(status, "VmHWM");
}

std::optional<std::uint64_t> parse_effective_capabilities(std::string_view status) {
  const std::optional<std::string_view> mask = first_value(status, "CapEff");
  if (!mask) return std::nullopt;
  return number<std::uint64_t>(*mask, 16);
}

std::optional<std::int64_t> parse_parent_pid(std::string_view stat) {
  // "pid (name) state ppid ...": the name ends at the last closing bracket.
  const std::size_t bracket = stat.rfind(')');
  if (bracket == std::string_view::npos) return std::nullopt;
  const std::string_view rest = trimmed(stat.substr(bracket + 1));
  if (rest.size() < 2) return std::nullopt;
  return number<std::int64_t>(rest.substr(1));
}

std::optional<bool> parse_is_profiling_admin_only(std::string_view params) {
  // The first name is what current drivers show, the second what older ones do.
  for (const std::string_view key :
       {"RmProfilingAdminOnly", "NVreg_RestrictProfilingToAdminUsers"}) {
    const std::optional<std::string_view> value = first_value(params, key);
    if (!value) continue;
    if (const auto flag = number<int>(*value)) return *flag != 0;
  }
  return std::nullopt;
}

}  // namespace steplens
