#include "profilers/host_usage.h"

#include <ctime>

#include <gtest/gtest.h>

namespace steplens {
namespace {

TEST(HostUsage, GivesDifferences) {
  const HostCounters before = {.jiffies = CpuJiffies{.steal = 100, .total = 10'000},
                               .cpu_time_ns = 5'000,
                               .num_involuntary_switches = 7};
  const HostCounters after = {.jiffies = CpuJiffies{.steal = 130, .total = 10'400},
                              .cpu_time_ns = 9'500,
                              .num_involuntary_switches = 19};
  const nlohmann::json json = host_usage(
      before, after, {.load_average = 2.5, .peak_rss_bytes = 4096, .is_peak_rss_reset = true});
  EXPECT_DOUBLE_EQ(json.at("steal_ratio").get<double>(), 0.075);
  EXPECT_EQ(json.at("cpu_time_ns"), 4'500);
  EXPECT_EQ(json.at("num_involuntary_switches"), 12);
  EXPECT_DOUBLE_EQ(json.at("load_average").get<double>(), 2.5);
  EXPECT_EQ(json.at("peak_rss_bytes"), 4096);
  EXPECT_EQ(json.at("is_peak_rss_reset"), true);
  EXPECT_TRUE(json.at("absent_reasons").empty());
}

TEST(HostUsage, HasNoStealRatioWithoutAClockTick) {
  const HostCounters same = {.jiffies = CpuJiffies{.steal = 3, .total = 50}};
  const nlohmann::json json = host_usage(same, same, {});
  EXPECT_TRUE(json.at("steal_ratio").is_null());
  EXPECT_EQ(json.at("absent_reasons").at("steal_ratio"), "the block was shorter than a clock tick");
}

TEST(HostUsage, SaysWhatTheKernelDoesNotShow) {
  const nlohmann::json json = host_usage({}, {.jiffies = CpuJiffies{.total = 9}}, {});
  for (const char* name : {"steal_ratio", "load_average", "peak_rss_bytes"}) {
    EXPECT_TRUE(json.at(name).is_null()) << name;
    EXPECT_EQ(json.at("absent_reasons").at(name), "the kernel does not show it") << name;
  }
}

TEST(ReadHostCounters, CountsTheCpuTimeOfThisProcess) {
  const HostCounters before = read_host_counters(Host());
  // Works until another clock of the kernel has seen 30 ms of this process.
  const std::clock_t begin = std::clock();
  while (std::clock() - begin < CLOCKS_PER_SEC * 3 / 100) {
  }
  const HostCounters after = read_host_counters(Host());
  // The two clocks are rounded differently, by less than a tick of 10 ms.
  EXPECT_GE(after.cpu_time_ns - before.cpu_time_ns, 20'000'000);
  EXPECT_GE(after.num_involuntary_switches, before.num_involuntary_switches);
  EXPECT_TRUE(before.jiffies.has_value());
  // A sum of all CPUs' ticks: the kernel's idle column may step back by a little.
  EXPECT_GT(after.jiffies.value_or(CpuJiffies{}).total, 0);
}

}  // namespace
}  // namespace steplens
