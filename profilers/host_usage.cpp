#include "profilers/host_usage.h"

#include <sys/resource.h>
#include <sys/time.h>

#include "harness/error.h"

namespace steplens {
namespace {

std::int64_t to_ns(const timeval& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_usec} * 1'000;
}

}  // namespace

HostCounters read_host_counters(const Host& host) {
  rusage usage{};
  SL_CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return {.jiffies = host.cpu_jiffies(),
          .cpu_time_ns = to_ns(usage.ru_utime) + to_ns(usage.ru_stime),
          .num_involuntary_switches = usage.ru_nivcsw};
}

nlohmann::json host_usage(const HostCounters& before, const HostCounters& after,
                          const HostState& state) {
  nlohmann::json absent_reasons = nlohmann::json::object();
  nlohmann::json json = {{"cpu_time_ns", after.cpu_time_ns - before.cpu_time_ns},
                         {"num_involuntary_switches",
                          after.num_involuntary_switches - before.num_involuntary_switches},
                         {"load_average", nullptr},
                         {"steal_ratio", nullptr},
                         {"peak_rss_bytes", nullptr},
                         {"is_peak_rss_reset", state.is_peak_rss_reset}};

  if (state.load_average) {
    json["load_average"] = *state.load_average;
  } else {
    absent_reasons["load_average"] = "the kernel does not show it";
  }
  if (state.peak_rss_bytes) {
    json["peak_rss_bytes"] = *state.peak_rss_bytes;
  } else {
    absent_reasons["peak_rss_bytes"] = "the kernel does not show it";
  }
  if (!before.jiffies || !after.jiffies) {
    absent_reasons["steal_ratio"] = "the kernel does not show it";
  } else if (after.jiffies->total <= before.jiffies->total) {
    absent_reasons["steal_ratio"] = "the block was shorter than a clock tick";
  } else {
    json["steal_ratio"] = static_cast<double>(after.jiffies->steal - before.jiffies->steal) /
                          static_cast<double>(after.jiffies->total - before.jiffies->total);
  }
  json["absent_reasons"] = std::move(absent_reasons);
  return json;
}

}  // namespace steplens
