#include "profilers/cupti/pm_sampler.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/profilers/pm_replay.h"
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kSmActive = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed";
constexpr const char* kTensor =
    "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed";
constexpr const char* kDramWrite = "dram__write_throughput.avg.pct_of_peak_sustained_elapsed";

class PmSamplerTest : public testing::Test {
 protected:
  // A sample of the interval of 100 ns that ends at `end_ns`.
  void push(std::uint64_t end_ns, double sm_active_percent = 0) {
    replay_.push(
        {.start_ns = end_ns - 100, .end_ns = end_ns, .percents = {{kSmActive, sm_active_percent}}});
  }
  PmSamples stopped() {
    sampler_.stop();
    return sampler_.take_samples();
  }
  static std::string reason_of(const PmSamples& samples, std::string_view name) {
    const auto it = std::ranges::find(samples.counters, name, &PmSamples::Counter::name);
    return it == samples.counters.end() ? "no such counter" : it->absent_reason;
  }

  PmReplay replay_;
  const PmSamplingApi api_ = PmReplay::api();
  PmSampler sampler_{api_, {.interval_ns = 100, .max_samples_per_decode = 4}};
};

TEST_F(PmSamplerTest, KeepsTheSamplesOfTheWindowAsShares) {
  ASSERT_EQ(sampler_.start(3), "");
  EXPECT_EQ(replay_.device_index, 3U);
  EXPECT_EQ(replay_.config.samplingInterval, 100U);
  EXPECT_EQ(replay_.config.triggerMode, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
  EXPECT_EQ(replay_.configured.size(), pm_metrics().size());
  sampler_.open_window(1'250);
  // The middle of the third is the first in the window: 1,250.
  for (int i = 1; i <= 8; ++i) push(1'000 + static_cast<std::uint64_t>(i) * 100, 10.0 * i);
  const PmSamples samples = stopped();
  EXPECT_THAT(samples.times_ns, ElementsAre(1'250, 1'350, 1'450, 1'550, 1'650, 1'750));
  const std::size_t num_counters = pm_metrics().size();
  ASSERT_EQ(samples.values.size(), 6 * num_counters);
  EXPECT_EQ(samples.counters[0].name, "sm_active");
  // Rounded to 2^-14: 0.30 is 4915.2 of them, 0.80 is 13107.2.
  EXPECT_EQ(samples.values[0], 4915.0 / 16384);
  EXPECT_EQ(samples.values[5 * num_counters], 13107.0 / 16384);
  EXPECT_DOUBLE_EQ(samples.values[1], 0.0);
  EXPECT_EQ(samples.num_missing_samples, 0);
  EXPECT_EQ(samples.num_overflows, 0);
  EXPECT_EQ(samples.failure, "");
}

TEST_F(PmSamplerTest, GivesTheClockInMegahertz) {
  ASSERT_EQ(sampler_.start(0), "");
  sampler_.open_window(0);
  replay_.push({.start_ns = 900,
                .end_ns = 1'000,
                .percents = {{"sm__cycles_elapsed.avg.per_second", 1'964'910'000.0}}});
  const PmSamples samples = stopped();
  const auto clock = std::ranges::find(samples.counters, "sm_clock", &PmSamples::Counter::name);
  ASSERT_NE(clock, samples.counters.end());
  EXPECT_EQ(clock->unit, "MHz");
  EXPECT_EQ(samples.values[static_cast<std::size_t>(clock - samples.counters.begin())], 1'965.0);
  EXPECT_EQ(samples.counters[0].unit, "ratio");
}

TEST_F(PmSamplerTest, KeepsNothingBeforeAWindowIsOpened) {
  ASSERT_EQ(sampler_.start(0), "");
  push(1'000);
  EXPECT_THAT(stopped().times_ns, IsEmpty());
}

TEST_F(PmSamplerTest, CountsOverflowsAndTheSamplesThatAreMissing) {
  ASSERT_EQ(sampler_.start(0), "");
  sampler_.open_window(0);
  push(1'000);
  push(1'100);
  push(1'600);  // Four are missing before it.
  push(1'700);
  replay_.overflow(CUPTI_ERROR_OUT_OF_MEMORY);
  const PmSamples samples = stopped();
  EXPECT_EQ(samples.times_ns.size(), 4U);
  EXPECT_EQ(samples.num_overflows, 1);
  EXPECT_EQ(samples.num_missing_samples, 4);
  EXPECT_EQ(samples.failure, "");
}

TEST_F(PmSamplerTest, LeavesOutSamplesWithImpossibleTimes) {
  ASSERT_EQ(sampler_.start(0), "");
  sampler_.open_window(0);
  replay_.push({.start_ns = 0, .end_ns = 900});  // The first one after a start can be such.
  push(1'000);
  replay_.push({.start_ns = 1'100, .end_ns = 1'100});
  replay_.push({.start_ns = 500, .end_ns = 600});
  push(1'100);
  const PmSamples samples = stopped();
  EXPECT_THAT(samples.times_ns, ElementsAre(950, 1'050));
  EXPECT_EQ(samples.num_invalid_samples, 3);
  EXPECT_EQ(samples.num_missing_samples, 0);
}

TEST_F(PmSamplerTest, SaysWhichCounterTheChipLacks) {
  replay_.chip = "GB202";
  replay_.unknown_metrics = {kTensor};
  ASSERT_EQ(sampler_.start(0), "");
  sampler_.open_window(0);
  replay_.push({.start_ns = 900, .end_ns = 1'000, .percents = {{kSmActive, 50}, {kTensor, 40}}});
  const PmSamples samples = stopped();
  EXPECT_EQ(reason_of(samples, "tensor_active"), std::string("chip GB202 has no ") + kTensor);
  EXPECT_EQ(reason_of(samples, "sm_active"), "");
  // The columns are those of the counters that are there.
  ASSERT_EQ(samples.values.size(), pm_metrics().size() - 1);
  EXPECT_DOUBLE_EQ(samples.values[0], 0.5);
  EXPECT_DOUBLE_EQ(samples.values[1], 0.0);
}

TEST_F(PmSamplerTest, LeavesOutWhatDoesNotFitIntoOnePass) {
  replay_.max_metrics_per_pass = 4;
  ASSERT_EQ(sampler_.start(0), "");
  EXPECT_EQ(replay_.config.configSize, sizeof(std::size_t));
  sampler_.open_window(0);
  replay_.push({.start_ns = 900, .end_ns = 1'000, .percents = {{kDramWrite, 25}}});
  const PmSamples samples = stopped();
  for (const char* name : {"sm_active", "tensor_active", "dram_read", "dram_write"}) {
    EXPECT_EQ(reason_of(samples, name), "") << name;
  }
  for (const char* name : {"dram_use", "pcie_write"}) {
    EXPECT_THAT(reason_of(samples, name), HasSubstr("does not fit into one pass")) << name;
  }
  ASSERT_EQ(samples.values.size(), 4U);
  EXPECT_DOUBLE_EQ(samples.values[3], 0.25);
}

TEST_F(PmSamplerTest, SaysThatPermissionIsMissing) {
  replay_.failures["enable"] = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  const std::string reason = sampler_.start(0);
  EXPECT_THAT(reason, HasSubstr("may not read performance counters; `steplens doctor`"));
  EXPECT_THAT(reason, HasSubstr("cuptiPmSamplingEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
  const PmSamples samples = stopped();
  EXPECT_EQ(samples.counters.size(), pm_metrics().size());
  for (const PmSamples::Counter& counter : samples.counters) {
    EXPECT_EQ(counter.absent_reason, reason);
  }
}

TEST_F(PmSamplerTest, SaysWhichCallWasRefusedWhicheverItIs) {
  for (const char* call : {"initialize", "chip_name", "counter_availability", "host_initialize",
                           "add_metrics", "set_config", "initialize_counter_data", "start"}) {
    replay_.failures = {{call, CUPTI_ERROR_UNKNOWN}};
    PmSampler sampler(api_);
    EXPECT_THAT(sampler.start(0), HasSubstr("CUPTI_ERROR_OF_THE_TEST (999)")) << call;
    EXPECT_FALSE(replay_.is_enabled) << call;
    EXPECT_THAT(sampler.take_samples().times_ns, IsEmpty());
  }
}

TEST_F(PmSamplerTest, RefusesAChipWithoutASingleCounter) {
  for (const PmMetric& metric : pm_metrics()) replay_.unknown_metrics.insert(metric.metric);
  EXPECT_EQ(sampler_.start(0), "chip GH100 has none of the counters");
}

TEST_F(PmSamplerTest, RefusesAnEmptyConfiguration) {
  replay_.is_config_empty = true;
  EXPECT_THAT(sampler_.start(0), HasSubstr("empty configuration"));
}

TEST_F(PmSamplerTest, KeepsWhatItHasWhenDecodingFails) {
  ASSERT_EQ(sampler_.start(0), "");
  sampler_.open_window(0);
  push(1'000, 50);
  replay_.failures["evaluate"] = CUPTI_ERROR_UNKNOWN;
  const PmSamples samples = stopped();
  EXPECT_THAT(samples.failure, HasSubstr("cuptiProfilerHostEvaluateToGpuValues"));
  EXPECT_THAT(samples.times_ns, IsEmpty());
  EXPECT_EQ(samples.counters[0].absent_reason, "");
}

TEST(PmMetrics, AreKnownToCuptiOfHoppersChip) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "CUPTI opens a library with RTLD_DEEPBIND, which sanitizers do not let run";
#endif
  for (const char* name : {"libnvperf_host.so", "libcupti.so.13"}) {
    const std::filesystem::path path =
        std::filesystem::path(STEPLENS_CUPTI_LIBRARY).parent_path() / name;
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) GTEST_SKIP() << ::dlerror();
  }
  const auto initialize = reinterpret_cast<decltype(&::cuptiProfilerHostInitialize)>(
      ::dlsym(RTLD_DEFAULT, "cuptiProfilerHostInitialize"));
  const auto properties = reinterpret_cast<decltype(&::cuptiProfilerHostGetMetricProperties)>(
      ::dlsym(RTLD_DEFAULT, "cuptiProfilerHostGetMetricProperties"));
  ASSERT_TRUE(initialize != nullptr && properties != nullptr);
  CUpti_Profiler_Host_Initialize_Params host{};
  host.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE;
  host.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
  host.pChipName = "GH100";
  ASSERT_EQ(initialize(&host), CUPTI_SUCCESS);
  for (const PmMetric& metric : pm_metrics()) {
    CUpti_Profiler_Host_GetMetricProperties_Params params{};
    params.structSize = CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE;
    params.pHostObject = host.pHostObject;
    params.pMetricName = metric.metric;
    ASSERT_EQ(properties(&params), CUPTI_SUCCESS) << metric.metric;
    EXPECT_STREQ(params.pDimUnit, metric.unit == "ratio" ? "percent" : "gpc_cycle/second")
        << metric.metric;
  }
}

TEST(LoadPmSampling, SaysWhatIsMissing) {
  std::string why_not;
  const PmSamplingApi* api = load_pm_sampling(why_not);
  EXPECT_EQ(api == nullptr, !why_not.empty());
  if (api != nullptr) {
    EXPECT_NE(api->decode, nullptr);
  }
}

}  // namespace
}  // namespace steplens
