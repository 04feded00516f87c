#include "profilers/proc_text.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

constexpr std::string_view kCpuinfo =
    "processor\t: 0\n"
    "vendor_id\t: GenuineIntel\n"
    "model\t\t: 143\n"
    "model name\t: Intel(R) Xeon(R) Platinum 8480C\n"
    "cpu MHz\t\t: 2000.000\n"
    "flags\t\t: fpu vme\n"
    "\n"
    "processor\t: 1\n"
    "model name\t: Intel(R) Xeon(R) Platinum 8480C\n"
    "cpu MHz\t\t: 3001.500\n"
    "\n";

constexpr std::string_view kArmCpuinfo =
    "processor\t: 0\n"
    "BogoMIPS\t: 50.00\n"
    "CPU implementer\t: 0x41\n"
    "CPU part\t: 0xd4f\n";

TEST(ParseCpuModel, TakesTheNameAndNotTheNumber) {
  EXPECT_EQ(parse_cpu_model(kCpuinfo), "Intel(R) Xeon(R) Platinum 8480C");
}

TEST(ParseCpuModel, IsAbsentWhereTheKernelNamesNone) {
  EXPECT_EQ(parse_cpu_model(kArmCpuinfo), std::nullopt);
  EXPECT_EQ(parse_cpu_model(""), std::nullopt);
}

TEST(ParseMeanCpuMhz, AveragesAllCpus) { EXPECT_EQ(parse_mean_cpu_mhz(kCpuinfo), 2500.75); }

TEST(ParseMeanCpuMhz, IsAbsentWithoutFrequencies) {
  EXPECT_EQ(parse_mean_cpu_mhz(kArmCpuinfo), std::nullopt);
}

TEST(ParseLoadAverage, TakesTheFirstMinute) {
  EXPECT_EQ(parse_load_average("1.54 0.79 0.37 3/110 10378\n"), 1.54);
  EXPECT_EQ(parse_load_average(""), std::nullopt);
  EXPECT_EQ(parse_load_average("none"), std::nullopt);
}

TEST(ParseCpuJiffies, SumsEightColumnsAndLeavesGuestTimeInUserTime) {
  constexpr std::string_view kStat =
      "cpu  100 20 30 4000 5 6 7 89 1000 2000\n"
      "cpu0 50 10 15 2000 2 3 3 40 500 1000\n";
  EXPECT_EQ(parse_cpu_jiffies(kStat),
            (CpuJiffies{.steal = 89, .total = 100 + 20 + 30 + 4000 + 5 + 6 + 7 + 89}));
}

TEST(ParseCpuJiffies, ReadsALineThatEndsAtSteal) {
  EXPECT_EQ(parse_cpu_jiffies("cpu 1 2 3 4 5 6 7 8"), (CpuJiffies{.steal = 8, .total = 36}));
}

TEST(ParseCpuJiffies, IsAbsentForAShortOrForeignLine) {
  EXPECT_FALSE(parse_cpu_jiffies("cpu  1 2 3 4\ncpu0 1 2 3 4 5 6 7 8\n").has_value());
  EXPECT_FALSE(parse_cpu_jiffies("intr 1 2 3 4 5 6 7 8\n").has_value());
  EXPECT_FALSE(parse_cpu_jiffies("").has_value());
}

TEST(ParseMemoryBytes, CountsKibibytes) {
  constexpr std::string_view kMeminfo =
      "MemTotal:       24684096 kB\n"
      "MemFree:        21234088 kB\n"
      "MemAvailable:   23439392 kB\n";
  EXPECT_EQ(parse_memory_bytes(kMeminfo), 25'276'514'304);
  EXPECT_EQ(parse_available_memory_bytes(kMeminfo), 24'001'937'408);
  EXPECT_EQ(parse_memory_bytes("MemFree: 1 kB\n"), std::nullopt);
}

constexpr std::string_view kStatus =
    "Name:\tsteplens-worker\n"
    "VmPeak:\t   99999 kB\n"
    "VmHWM:\t    1636 kB\n"
    "VmRSS:\t    1000 kB\n"
    "CapPrm:\t0000000000000000\n"
    "CapEff:\t000001fffeffffff\n";

TEST(ParsePeakRssBytes, TakesTheHighWaterMark) {
  EXPECT_EQ(parse_peak_rss_bytes(kStatus), 1'675'264);
  EXPECT_EQ(parse_peak_rss_bytes("VmRSS:\t 1000 kB\n"), std::nullopt);
}

TEST(ParseEffectiveCapabilities, ReadsHexadecimal) {
  EXPECT_EQ(parse_effective_capabilities(kStatus), 0x1fffeffffffU);
}

TEST(ParseParentPid, SkipsANameWithBlanksAndBrackets) {
  EXPECT_EQ(parse_parent_pid("4242 (python3 (x) S 7) R 17 4242 4242 0 -1\n"), 17);
  EXPECT_EQ(parse_parent_pid("1 (init) S 0 1 1 0\n"), 0);
  EXPECT_EQ(parse_parent_pid("4242 python3 R 17"), std::nullopt);
  EXPECT_EQ(parse_parent_pid("4242 (x)"), std::nullopt);
}

TEST(ParseIsProfilingAdminOnly, ReadsBothNamesOfTheParameter) {
  EXPECT_EQ(parse_is_profiling_admin_only("ResmanDebugLevel: 4294967295\n"
                                          "RmProfilingAdminOnly: 1\n"
                                          "PreserveVideoMemoryAllocations: 0\n"),
            true);
  EXPECT_EQ(parse_is_profiling_admin_only("RmProfilingAdminOnly: 0\n"), false);
  EXPECT_EQ(parse_is_profiling_admin_only("NVreg_RestrictProfilingToAdminUsers: 1\n"), true);
  EXPECT_EQ(parse_is_profiling_admin_only("ResmanDebugLevel: 1\n"), std::nullopt);
}

}  // namespace
}  // namespace steplens
