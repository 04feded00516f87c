#include "profilers/host.h"

#include <fstream>
#include <sstream>

#include "tests/profilers/temporary_folder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace steplens {
namespace {

TEST(WithDescendants, FollowsGrandchildrenWhoseNumbersAreLower) {
  // 50 -> 40 -> 30; 60 -> 1; pids were used up and began anew.
  const ProcessParents parents = {{30, 40}, {40, 50}, {50, 1}, {60, 1}, {1, 0}};
  EXPECT_THAT(with_descendants(50, parents), testing::ElementsAre(30, 40, 50));
}

TEST(WithDescendants, IsTheProcessAloneWhereNothingIsKnown) {
  EXPECT_THAT(with_descendants(50, {}), testing::ElementsAre(50));
}

TEST(Host, ReadsItsFiles) {
  const FolderOfFiles folder;
  folder.write("proc/cpuinfo", "model name : Some CPU\ncpu MHz : 1200.0\n");
  folder.write("proc/loadavg", "0.25 0.1 0.1 1/1 1\n");
  folder.write("proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0\n");
  folder.write("proc/meminfo", "MemTotal: 2 kB\nMemAvailable: 1 kB\n");
  folder.write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
  folder.write("proc/self/status", "VmHWM: 3 kB\nCapEff: 0000000000200000\n");
  folder.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n");
  const Host host(folder.path() / "proc", folder.path() / "sys");
  EXPECT_EQ(host.cpu_model(), "Some CPU");
  EXPECT_EQ(host.mean_cpu_mhz(), 1200.0);
  EXPECT_EQ(host.load_average(), 0.25);
  EXPECT_EQ(host.cpu_jiffies(), (CpuJiffies{.steal = 8, .total = 36}));
  EXPECT_EQ(host.memory_bytes(), 2048);
  EXPECT_EQ(host.available_memory_bytes(), 1024);
  EXPECT_EQ(host.kernel_version(), "6.1.0-18-amd64");
  EXPECT_EQ(host.peak_rss_bytes(), 3072);
  EXPECT_EQ(host.effective_capabilities(), 1U << 21);
  EXPECT_EQ(host.is_profiling_admin_only(), true);
}

TEST(Host, HasNothingInAnEmptyFolder) {
  const FolderOfFiles folder;
  const Host host(folder.path() / "proc", folder.path() / "sys");
  EXPECT_EQ(host.cpu_model(), std::nullopt);
  EXPECT_EQ(host.load_average(), std::nullopt);
  EXPECT_FALSE(host.cpu_jiffies().has_value());
  EXPECT_EQ(host.kernel_version(), std::nullopt);
  EXPECT_EQ(host.governor(), std::nullopt);
  EXPECT_EQ(host.is_profiling_admin_only(), std::nullopt);
  EXPECT_TRUE(host.process_parents().empty());
  EXPECT_FALSE(host.reset_peak_rss());
}

TEST(Host, NamesEachGovernorOnce) {
  const FolderOfFiles folder;
  folder.write("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  folder.write("devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
  folder.write("devices/system/cpu/cpu10/cpufreq/scaling_governor", "powersave\n");
  folder.write("devices/system/cpu/cpufreq/cpufreq/scaling_governor", "not a CPU\n");
  EXPECT_EQ(Host("/proc", folder.path()).governor(), "performance, powersave");
}

TEST(Host, ListsProcessesAndNothingElse) {
  const FolderOfFiles folder;
  folder.write("1/stat", "1 (init) S 0 1\n");
  folder.write("77/stat", "77 (a b) S 1 77\n");
  folder.write("78/status", "a process that has just ended\n");
  folder.write("sys/stat", "9 (x) S 8 9\n");
  EXPECT_THAT(Host(folder.path()).process_parents(),
              testing::ElementsAre(testing::Pair(1, 0), testing::Pair(77, 1)));
}

TEST(Host, SeesThisProcessAndItsParent) {
  const ProcessParents parents = Host().process_parents();
  const auto self = parents.find(getpid());
  ASSERT_NE(self, parents.end());
  EXPECT_EQ(self->second, getppid());
}

TEST(Host, ResetsThePeakByWritingFive) {
  const FolderOfFiles folder;
  folder.write("self/clear_refs", "");
  EXPECT_TRUE(Host(folder.path()).reset_peak_rss());
  std::ostringstream text;
  text << std::ifstream(folder.path() / "self/clear_refs").rdbuf();
  EXPECT_EQ(text.str(), "5");
}

TEST(Host, EnvironmentHasNullsForWhatIsNotShown) {
  const FolderOfFiles folder;
  folder.write("cpuinfo", "model name : Some CPU\n");
  const nlohmann::json environment = Host(folder.path(), folder.path()).environment();
  EXPECT_EQ(environment.at("cpu_model"), "Some CPU");
  EXPECT_TRUE(environment.at("governor").is_null());
  EXPECT_TRUE(environment.at("memory_bytes").is_null());
  EXPECT_TRUE(environment.at("kernel_version").is_null());
  EXPECT_GE(environment.at("num_cpus").get<int>(), 1);
}

}  // namespace
}  // namespace steplens
