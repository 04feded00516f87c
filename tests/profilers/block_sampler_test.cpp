#include "profilers/block_sampler.h"

#include <fstream>
#include <set>
#include <string>

#include "tests/profilers/nvml_replay.h"
#include "tests/profilers/temporary_folder.h"
#include <gtest/gtest.h>

namespace steplens {
namespace {

using namespace std::chrono_literals;

constexpr auto kNever = 1h;

void set_usual_values(NvmlReplay& replay) {
  replay.set("clock_1", {{.value = 1000}, {.value = 1980}});
  replay.set("clock_2", {{.value = 3201}});
  replay.set("temperature", {{.value = 50}, {.value = 58}, {.value = 55}});
  replay.set("margin_temperature", {{.value = 30}});
  replay.set("power_milliwatts", {{.value = 650'000}});
  replay.set("gpu_percent", {{.value = 100}});
  replay.set("memory_percent", {{.value = 40}});
  replay.set("memory_used", {{.value = 1'000'000}});
  replay.set("energy_millijoules", {{.value = 7'000'000}, {.value = 7'003'500}});
  replay.set("clock_event_reasons", {{.value = 0x4}});
}

TEST(GpuBlockSampler, SamplesOnItsThreadBetweenStartAndStop) {
  NvmlReplay replay;
  set_usual_values(replay);
  const Nvml nvml(NvmlReplay::api());
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), 1ms);
  sampler->start();
  replay.wait_for_calls("clock_event_reasons", 5);
  const nlohmann::json json = sampler->stop();
  const std::size_t num_calls_at_stop = replay.num_calls("clock_event_reasons");

  const auto n = json.at("num_samples").get<std::size_t>();
  EXPECT_GE(n, 5u);
  EXPECT_EQ(n, num_calls_at_stop);
  for (const char* name :
       {"time_ns", "sm_clock_mhz", "memory_clock_mhz", "power_watts", "temperature_celsius",
        "headroom_celsius", "gpu_utilization_ratio", "memory_utilization_ratio",
        "memory_used_bytes", "clock_event_reasons"}) {
    EXPECT_EQ(json.at(name).size(), n) << name;
  }
  const auto times_ns = json.at("time_ns").get<std::vector<std::int64_t>>();
  EXPECT_GE(times_ns.front(), 500'000) << "the first sample stands in the middle of its period";
  for (std::size_t i = 1; i < n; ++i) EXPECT_GT(times_ns[i], times_ns[i - 1]);

  // 1000 MHz once, then 1980.
  const double mean_mhz = (1000.0 + 1980.0 * static_cast<double>(n - 1)) / static_cast<double>(n);
  EXPECT_NEAR(json.at("mean_sm_clock_mhz").get<double>(), mean_mhz, 1e-9);
  EXPECT_EQ(json.at("min_sm_clock_mhz"), 1000.0);
  EXPECT_EQ(json.at("max_temperature_celsius"), 58.0);
  EXPECT_DOUBLE_EQ(json.at("mean_power_watts").get<double>(), 650);
  EXPECT_DOUBLE_EQ(json.at("energy_j").get<double>(), 3.5);
  EXPECT_DOUBLE_EQ(json.at("throttle_shares").at("sw_power_cap").get<double>(), 1);
  EXPECT_FALSE(is_throttled_by_hardware(json));
  EXPECT_EQ(json.at("period_ns"), 1'000'000);
  EXPECT_EQ(json.at("num_errors"), 0);
  EXPECT_GT(json.at("sampling_ns").get<std::int64_t>(), 0);
  EXPECT_DOUBLE_EQ(json.at("sampling_cost_ratio").get<double>(),
                   json.at("sampling_ns").get<double>() / json.at("duration_ns").get<double>());
  nlohmann::json absent = json.at("absent_reasons");
  absent.erase("steal_ratio");  // The real host's clock may not have ticked.
  EXPECT_TRUE(absent.empty()) << absent;
}

TEST(GpuBlockSampler, ReadsEnergyTwiceHoweverManySamples) {
  NvmlReplay replay;
  set_usual_values(replay);
  const Nvml nvml(NvmlReplay::api());
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), 1ms);
  sampler->start();
  replay.wait_for_calls("clock_event_reasons", 3);
  sampler->stop();
  EXPECT_EQ(replay.num_calls("energy_millijoules"), 2u);
}

TEST(GpuBlockSampler, HasOneSampleOfABlockShorterThanHalfAPeriod) {
  NvmlReplay replay;
  set_usual_values(replay);
  const Nvml nvml(NvmlReplay::api());
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), kNever);
  sampler->start();
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("num_samples"), 1);
  EXPECT_EQ(json.at("mean_sm_clock_mhz"), 1000.0);
  EXPECT_EQ(json.at("sampling_ns"), 0) << "that sample was taken after the block";
}

TEST(GpuBlockSampler, GoesOnAfterErrorsAndCountsThem) {
  NvmlReplay replay;
  set_usual_values(replay);
  replay.set("power_milliwatts", {{.value = 100'000},
                                  {.status = NvmlStatus::kTimeout},
                                  {.status = NvmlStatus::kUnknown},
                                  {.value = 400'000}});
  const Nvml nvml(NvmlReplay::api());
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), 1ms);
  sampler->start();
  replay.wait_for_calls("power_milliwatts", 5);
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("num_errors"), 2);
  EXPECT_EQ(json.at("last_error"), "power_watts: NVML error 999");
  EXPECT_EQ(json.at("power_watts").at(0), 100.0);
  EXPECT_TRUE(json.at("power_watts").at(1).is_null());
  EXPECT_TRUE(json.at("power_watts").at(2).is_null());
  EXPECT_EQ(json.at("power_watts").at(3), 400.0);
  const auto n = json.at("num_samples").get<double>();
  EXPECT_NEAR(json.at("mean_power_watts").get<double>(), (100 + 400 * (n - 3)) / (n - 2), 1e-9);
}

TEST(GpuBlockSampler, WorksWithoutMostFunctions) {
  NvmlReplay replay;
  replay.set("clock_1", {{.value = 1500}});
  NvmlApi api = NvmlReplay::api();
  api.energy_millijoules = nullptr;
  api.margin_temperature = nullptr;
  api.clock_event_reasons = nullptr;
  api.utilization = nullptr;
  const Nvml nvml(api);
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), kNever);
  sampler->start();
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("mean_sm_clock_mhz"), 1500.0);
  EXPECT_TRUE(json.at("energy_j").is_null());
  EXPECT_EQ(json.at("absent_reasons").at("energy_j"), "this driver's NVML has no such function");
  EXPECT_EQ(json.at("absent_reasons").at("clock_event_reasons"),
            "this driver's NVML has no such function");
  EXPECT_TRUE(json.at("throttle_shares").is_null());
  EXPECT_FALSE(is_throttled_by_hardware(json)) << "not known is not throttled";
  EXPECT_EQ(json.at("num_errors"), 0);
}

TEST(GpuBlockSampler, HasNoEnergyIfACounterReadingFailedOrWentBack) {
  NvmlReplay replay;
  set_usual_values(replay);
  replay.set("energy_millijoules", {{.value = 5'000}, {.status = NvmlStatus::kGpuIsLost}});
  const Nvml nvml(NvmlReplay::api());
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), kNever);
  sampler->start();
  const nlohmann::json failed = sampler->stop();
  EXPECT_TRUE(failed.at("energy_j").is_null());
  EXPECT_EQ(failed.at("num_errors"), 1);
  EXPECT_EQ(failed.at("absent_reasons").at("energy_j"), "the GPU is lost: it fell off the bus");

  replay.set("energy_millijoules", {{}, {}, {.value = 5'000}, {.value = 10}});  // Third, fourth.
  sampler->start();
  const nlohmann::json back = sampler->stop();
  EXPECT_TRUE(back.at("energy_j").is_null());
  EXPECT_EQ(back.at("absent_reasons").at("energy_j"),
            "the counter went back: the driver was reloaded");
  EXPECT_EQ(back.at("num_errors"), 0) << "a new start begins with nothing counted";
}

TEST(GpuBlockSampler, ShowsHardwareThrottling) {
  NvmlReplay replay;
  set_usual_values(replay);
  replay.set("clock_event_reasons", {{.value = 0x4}, {.value = 0x40}, {.value = 0x4}});
  const Nvml nvml(NvmlReplay::api());
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), 1ms);
  sampler->start();
  replay.wait_for_calls("clock_event_reasons", 4);
  const nlohmann::json json = sampler->stop();
  EXPECT_TRUE(is_throttled_by_hardware(json));
  EXPECT_EQ(json.at("num_hardware_throttled_samples"), 1);
}

TEST(GpuBlockSampler, LeavesTheBlockUsableWithoutNvml) {
  const Nvml nvml("libnvidia-ml.so.1 not found: no NVIDIA driver");
  const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), 1ms);
  sampler->start();
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("num_samples"), 0);
  EXPECT_TRUE(json.at("sm_clock_mhz").is_null());
  EXPECT_TRUE(json.at("energy_j").is_null());
  EXPECT_EQ(json.at("absent_reasons").at("gpu"), "libnvidia-ml.so.1 not found: no NVIDIA driver");
  EXPECT_TRUE(json.at("cpu_time_ns").is_number());
}

TEST(GpuBlockSampler, NamesAnUnknownGpu) {
  NvmlReplay replay;
  const Nvml nvml(NvmlReplay::api());
  const auto sampler = make_gpu_sampler(nvml, "GPU-8", Host(), kNever);
  sampler->start();
  EXPECT_EQ(sampler->stop().at("absent_reasons").at("gpu"),
            "the driver knows no GPU with this UUID");
}

TEST(GpuBlockSampler, HasTheSameKeysWithAndWithoutAGpu) {
  NvmlReplay replay;
  set_usual_values(replay);
  const Nvml nvml(NvmlReplay::api());
  const auto keys = [&nvml](const std::string& uuid) {
    const auto sampler = make_gpu_sampler(nvml, uuid, Host(), kNever);
    sampler->start();
    const nlohmann::json json = sampler->stop();
    std::set<std::string> names;
    for (const auto& [name, value] : json.items()) names.insert(name);
    return names;
  };
  EXPECT_EQ(keys("GPU-0"), keys("GPU-8"));
}

TEST(GpuBlockSampler, EndsItsThreadWhenABlockIsAbandoned) {
  NvmlReplay replay;
  set_usual_values(replay);
  const Nvml nvml(NvmlReplay::api());
  {
    const auto sampler = make_gpu_sampler(nvml, "GPU-0", Host(), 1ms);
    sampler->start();
    replay.wait_for_calls("clock_event_reasons", 2);
  }
  const std::size_t num_calls = replay.num_calls("clock_event_reasons");
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(replay.num_calls("clock_event_reasons"), num_calls);
}

TEST(CpuBlockSampler, ReadsTheHostOfTheBlock) {
  const FolderOfFiles proc;
  proc.write("cpuinfo", "cpu MHz : 2000.0\ncpu MHz : 3000.0\n");
  proc.write("loadavg", "1.25 0 0 1/1 1\n");
  proc.write("stat", "cpu  100 0 0 100 0 0 0 10\n");
  proc.write("self/status", "VmHWM: 100 kB\n");
  proc.write("self/clear_refs", "");
  const auto sampler = make_cpu_sampler(Host(proc.path()), kNever);
  sampler->start();
  proc.write("stat", "cpu  250 0 0 120 0 0 0 40\n");
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("mean_cpu_mhz"), 2500.0);
  EXPECT_EQ(json.at("cpu_mhz"), (std::vector<double>{2500}));
  EXPECT_EQ(json.at("num_samples"), 1);
  EXPECT_EQ(json.at("load_average"), 1.25);
  EXPECT_DOUBLE_EQ(json.at("steal_ratio").get<double>(), 0.15);  // 30 of 200 ticks.
  EXPECT_EQ(json.at("peak_rss_bytes"), 102'400);
  EXPECT_EQ(json.at("is_peak_rss_reset"), true);
  EXPECT_GE(json.at("cpu_time_ns").get<std::int64_t>(), 0);
  EXPECT_GE(json.at("num_involuntary_switches").get<std::int64_t>(), 0);
  EXPECT_FALSE(is_throttled_by_hardware(json));
}

TEST(CpuBlockSampler, AveragesOverItsSamples) {
  const FolderOfFiles proc;
  proc.write("cpuinfo", "cpu MHz : 1000.0\n");
  const auto sampler = make_cpu_sampler(Host(proc.path()), 1ms);
  sampler->start();
  std::this_thread::sleep_for(20ms);
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("mean_cpu_mhz"), 1000.0);
  EXPECT_EQ(json.at("time_ns").size(), json.at("num_samples").get<std::size_t>());
  EXPECT_EQ(json.at("cpu_mhz").size(), json.at("num_samples").get<std::size_t>());
}

TEST(CpuBlockSampler, SaysThatTheKernelShowsNoFrequency) {
  const FolderOfFiles proc;
  const auto sampler = make_cpu_sampler(Host(proc.path()), kNever);
  sampler->start();
  const nlohmann::json json = sampler->stop();
  EXPECT_TRUE(json.at("cpu_mhz").is_null());
  EXPECT_TRUE(json.at("mean_cpu_mhz").is_null());
  for (const char* name : {"cpu_mhz", "load_average", "steal_ratio", "peak_rss_bytes"}) {
    EXPECT_EQ(json.at("absent_reasons").at(name), "the kernel does not show it") << name;
  }
}

TEST(MakeBlockSampler, SamplesTheCpuOfThisMachineAndItsPeakMemory) {
  const auto sampler = make_block_sampler("");
  sampler->start();
  constexpr std::size_t kNumBytes = 32 << 20;
  {
    const std::vector<char> touched(kNumBytes, 1);
    EXPECT_EQ(touched.back(), 1);
  }
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("period_ns"), 1'000'000'000);
  ASSERT_TRUE(json.at("peak_rss_bytes").is_number());
  EXPECT_GT(json.at("peak_rss_bytes").get<std::int64_t>(), std::int64_t{kNumBytes});
}

TEST(MakeBlockSampler, SamplesAGpuEvery100Milliseconds) {
  const auto sampler = make_block_sampler("GPU-00000000-0000-0000-0000-000000000000");
  sampler->start();
  const nlohmann::json json = sampler->stop();
  EXPECT_EQ(json.at("period_ns"), 100'000'000);
  EXPECT_FALSE(json.at("absent_reasons").at("gpu").get<std::string>().empty());
}

TEST(IsThrottledByHardware, ReadsAnythingWithoutThrowing) {
  EXPECT_FALSE(is_throttled_by_hardware(nlohmann::json::object()));
  EXPECT_FALSE(is_throttled_by_hardware(nullptr));
  EXPECT_FALSE(is_throttled_by_hardware({{"is_throttled_by_hardware", nullptr}}));
  EXPECT_TRUE(is_throttled_by_hardware({{"is_throttled_by_hardware", true}}));
}

}  // namespace
}  // namespace steplens
