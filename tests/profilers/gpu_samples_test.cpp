#include "profilers/gpu_samples.h"

#include <vector>

#include "tests/profilers/nvml_replay.h"
#include <gtest/gtest.h>

#include "profilers/nvml.h"

namespace steplens {
namespace {

nlohmann::json summarize(const std::vector<GpuSample>& samples) {
  return summarize_gpu_samples(samples, {});
}

std::vector<GpuSample> with_reasons(const std::vector<std::uint64_t>& masks) {
  std::vector<GpuSample> samples(masks.size());
  for (std::size_t i = 0; i < masks.size(); ++i) samples[i].clock_event_reasons = masks[i];
  return samples;
}

TEST(SummarizeGpuSamples, KeepsTheCurvesAndSummarizesThem) {
  const nlohmann::json json = summarize({{.time_ns = 50,
                                          .sm_clock_mhz = 1980,
                                          .memory_clock_mhz = 3201,
                                          .temperature_celsius = 55,
                                          .headroom_celsius = 32,
                                          .power_watts = 600,
                                          .gpu_utilization_ratio = 1.0,
                                          .memory_utilization_ratio = 0.5,
                                          .memory_used_bytes = 1000},
                                         {.time_ns = 150,
                                          .sm_clock_mhz = 1755,
                                          .memory_clock_mhz = 3201,
                                          .temperature_celsius = 57,
                                          .headroom_celsius = 30,
                                          .power_watts = 690,
                                          .gpu_utilization_ratio = 0.98,
                                          .memory_utilization_ratio = 0.6,
                                          .memory_used_bytes = 3000},
                                         {.time_ns = 250,
                                          .sm_clock_mhz = 1935,
                                          .memory_clock_mhz = 3198,
                                          .temperature_celsius = 56,
                                          .headroom_celsius = 31,
                                          .power_watts = 660,
                                          .gpu_utilization_ratio = 0.96,
                                          .memory_utilization_ratio = 0.7,
                                          .memory_used_bytes = 2000}});
  EXPECT_EQ(json.at("num_samples"), 3);
  EXPECT_EQ(json.at("time_ns"), (std::vector<int>{50, 150, 250}));
  EXPECT_EQ(json.at("sm_clock_mhz"), (std::vector<double>{1980, 1755, 1935}));
  EXPECT_EQ(json.at("power_watts"), (std::vector<double>{600, 690, 660}));
  EXPECT_EQ(json.at("temperature_celsius"), (std::vector<double>{55, 57, 56}));
  EXPECT_EQ(json.at("gpu_utilization_ratio"), (std::vector<double>{1, 0.98, 0.96}));
  EXPECT_EQ(json.at("memory_used_bytes"), (std::vector<int>{1000, 3000, 2000}));
  EXPECT_DOUBLE_EQ(json.at("mean_sm_clock_mhz").get<double>(), 1890);
  EXPECT_DOUBLE_EQ(json.at("min_sm_clock_mhz").get<double>(), 1755);
  EXPECT_DOUBLE_EQ(json.at("mean_memory_clock_mhz").get<double>(), 3200);
  EXPECT_DOUBLE_EQ(json.at("min_memory_clock_mhz").get<double>(), 3198);
  EXPECT_DOUBLE_EQ(json.at("mean_power_watts").get<double>(), 650);
  EXPECT_DOUBLE_EQ(json.at("mean_gpu_utilization_ratio").get<double>(), 0.98);
  EXPECT_DOUBLE_EQ(json.at("max_temperature_celsius").get<double>(), 57);
  EXPECT_DOUBLE_EQ(json.at("min_headroom_celsius").get<double>(), 30);
  EXPECT_EQ(json.at("max_memory_used_bytes"), 3000);
  EXPECT_TRUE(json.at("last_error").is_null());
}

TEST(SummarizeGpuSamples, LeavesHolesOutOfTheSummaries) {
  const nlohmann::json json =
      summarize({{.power_watts = 100}, {.power_watts = std::nullopt}, {.power_watts = 300}});
  EXPECT_EQ(json.at("power_watts"), nlohmann::json::parse("[100.0, null, 300.0]"));
  EXPECT_DOUBLE_EQ(json.at("mean_power_watts").get<double>(), 200);
  EXPECT_FALSE(json.at("absent_reasons").contains("power_watts"));
}

TEST(SummarizeGpuSamples, SaysWhyACurveIsAbsent) {
  ReadFailures failures;
  failures.add("headroom_celsius", NvmlStatus::kNotSupported);
  const std::vector<GpuSample> samples(2);
  const nlohmann::json json = summarize_gpu_samples(samples, failures);
  EXPECT_TRUE(json.at("headroom_celsius").is_null());
  EXPECT_TRUE(json.at("min_headroom_celsius").is_null());
  EXPECT_EQ(json.at("absent_reasons").at("headroom_celsius"), "not supported by this GPU");
  EXPECT_EQ(json.at("num_errors"), 0);
  EXPECT_TRUE(json.at("throttle_shares").is_null());
  EXPECT_TRUE(json.at("is_throttled_by_hardware").is_null());
}

TEST(SummarizeGpuSamples, CountsTheShareOfEachReasonByItself) {
  // 8 samples: 0x4 (SW power cap) in 4, 0x1 (idle) in 1, 0x2 (application clocks) in 2, 0x20 (SW
  // thermal) in 1; 0x10 and 0x100 have no share of their own.
  const nlohmann::json json = summarize(with_reasons({0x4, 0x4, 0x6, 0x1, 0x2, 0x24, 0x110, 0x0}));
  const nlohmann::json& shares = json.at("throttle_shares");
  EXPECT_EQ(shares.size(), 7u);
  EXPECT_DOUBLE_EQ(shares.at("sw_power_cap").get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(shares.at("gpu_idle").get<double>(), 0.125);
  EXPECT_DOUBLE_EQ(shares.at("applications_clocks").get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(shares.at("sw_thermal").get<double>(), 0.125);
  EXPECT_DOUBLE_EQ(shares.at("hw_slowdown").get<double>(), 0);
  EXPECT_DOUBLE_EQ(shares.at("hw_thermal").get<double>(), 0);
  EXPECT_DOUBLE_EQ(shares.at("hw_power_brake").get<double>(), 0);
  EXPECT_EQ(json.at("is_throttled_by_hardware"), false);
  EXPECT_EQ(json.at("num_hardware_throttled_samples"), 0);
}

TEST(SummarizeGpuSamples, SeesHardwareThrottlingInASingleSample) {
  for (const std::uint64_t bit : {0x8, 0x40, 0x80}) {
    const nlohmann::json json = summarize(with_reasons({0, 0, bit, 0}));
    EXPECT_EQ(json.at("is_throttled_by_hardware"), true) << bit;
    EXPECT_EQ(json.at("num_hardware_throttled_samples"), 1) << bit;
  }
  EXPECT_EQ(summarize(with_reasons({0x48}))["num_hardware_throttled_samples"], 1);
}

TEST(SummarizeGpuSamples, DoesNotTakeSoftwareLimitsForHardwareThrottling) {
  EXPECT_EQ(summarize(with_reasons({0x1, 0x2, 0x4, 0x10, 0x20, 0x100}))["is_throttled_by_hardware"],
            false);
}

TEST(SummarizeGpuSamples, TakesSharesOverTheSamplesThatHaveReasons) {
  std::vector<GpuSample> samples = with_reasons({0x4, 0x0});
  samples.push_back({});
  samples.push_back({});
  EXPECT_DOUBLE_EQ(summarize(samples)["throttle_shares"]["sw_power_cap"].get<double>(), 0.5);
}

TEST(SummarizeGpuSamples, IsAllNullWithoutSamples) {
  const nlohmann::json json = summarize({});
  EXPECT_EQ(json.at("num_samples"), 0);
  EXPECT_TRUE(json.at("time_ns").empty());
  EXPECT_TRUE(json.at("sm_clock_mhz").is_null());
  EXPECT_TRUE(json.at("mean_sm_clock_mhz").is_null());
  EXPECT_EQ(json.at("absent_reasons").at("sm_clock_mhz"), "no sample was taken");
}

TEST(ReadGpuSample, PutsEachReadingIntoItsField) {
  NvmlReplay replay;
  replay.set("clock_1", {{.value = 1980}});
  replay.set("clock_2", {{.value = 3201}});
  replay.set("temperature", {{.value = 61}});
  replay.set("margin_temperature", {{.value = 26}});
  replay.set("power_milliwatts", {{.value = 650'500}});
  replay.set("gpu_percent", {{.value = 97}});
  replay.set("memory_percent", {{.value = 41}});
  replay.set("memory_used", {{.value = 36'000'000'000}});
  replay.set("clock_event_reasons", {{.value = 0x4}});
  const Nvml nvml(NvmlReplay::api());
  ReadFailures failures;
  const GpuSample sample = read_gpu_sample(nvml.gpus().gpus.at(0), 77, failures);
  EXPECT_EQ(sample.time_ns, 77);
  EXPECT_EQ(sample.sm_clock_mhz, 1980.0);
  EXPECT_EQ(sample.memory_clock_mhz, 3201.0);
  EXPECT_EQ(sample.temperature_celsius, 61.0);
  EXPECT_EQ(sample.headroom_celsius, 26.0);
  EXPECT_EQ(sample.power_watts, 650.5);
  EXPECT_EQ(sample.gpu_utilization_ratio, 0.97);
  EXPECT_EQ(sample.memory_utilization_ratio, 0.41);
  EXPECT_EQ(sample.memory_used_bytes, 36'000'000'000);
  EXPECT_EQ(sample.clock_event_reasons, 0x4u);
  EXPECT_EQ(failures.num_errors, 0);
  EXPECT_TRUE(failures.absent_reasons.empty());
}

TEST(ReadGpuSample, CountsErrorsAndNotWhatTheGpuLacks) {
  NvmlReplay replay;
  replay.set("clock_1", {{.value = 1980}});
  replay.set("power_milliwatts", {{.status = NvmlStatus::kTimeout}});
  NvmlApi api = NvmlReplay::api();
  api.margin_temperature = nullptr;
  const Nvml nvml(api);
  ReadFailures failures;
  const GpuSample sample = read_gpu_sample(nvml.gpus().gpus.at(0), 0, failures);
  EXPECT_EQ(sample.sm_clock_mhz, 1980.0);
  EXPECT_EQ(sample.power_watts, std::nullopt);
  EXPECT_EQ(failures.num_errors, 1);
  EXPECT_EQ(failures.last_error, "power_watts: timeout");
  EXPECT_EQ(failures.absent_reasons.at("headroom_celsius"),
            "this driver's NVML has no such function");
  EXPECT_EQ(failures.absent_reasons.at("memory_utilization_ratio"), "not supported by this GPU");
}

TEST(ReadGpuSample, CountsOneErrorForTheCallThatGivesBothUtilizations) {
  NvmlReplay replay;
  replay.set("gpu_percent", {{.status = NvmlStatus::kGpuIsLost}});
  const Nvml nvml(NvmlReplay::api());
  ReadFailures failures;
  read_gpu_sample(nvml.gpus().gpus.at(0), 0, failures);
  EXPECT_EQ(failures.num_errors, 1);
}

}  // namespace
}  // namespace steplens
