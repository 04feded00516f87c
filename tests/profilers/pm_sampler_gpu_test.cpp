// Samples the counters of a real GPU for a second while it copies memory. Prints what it saw.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "profilers/cupti/pm_sampler.h"
#include "profilers/trace/range_recorder.h"

namespace steplens {
namespace {

// The few driver calls that keep a GPU busy, without linking it.
class Driver {
 public:
  using Pointer = unsigned long long;

  Driver() {
    library_ = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr || call<unsigned>("cuInit", 0U) != 0) return;
    int device = 0;
    void* context = nullptr;
    is_ready_ = call<int*, int>("cuDeviceGet", &device, 0) == 0 &&
                call<void**, int>("cuDevicePrimaryCtxRetain", &context, device) == 0 &&
                call<void*>("cuCtxSetCurrent", context) == 0 &&
                call<Pointer*, std::size_t>("cuMemAlloc_v2", &from_, kBytes) == 0 &&
                call<Pointer*, std::size_t>("cuMemAlloc_v2", &to_, kBytes) == 0;
  }
  bool is_ready() const { return is_ready_; }

  // A memset kernel and a copy on the device, both over 512 MiB.
  void work() {
    EXPECT_EQ((call<Pointer, unsigned, std::size_t>("cuMemsetD32_v2", from_, 1U, kBytes / 4)), 0);
    EXPECT_EQ((call<Pointer, Pointer, std::size_t>("cuMemcpyDtoD_v2", to_, from_, kBytes)), 0);
    EXPECT_EQ(call<>("cuCtxSynchronize"), 0);
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{512} << 20;

  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return function == nullptr ? -1 : function(arguments...);
  }

  void* library_ = nullptr;
  bool is_ready_ = false;
  Pointer from_ = 0;
  Pointer to_ = 0;
};

TEST(PmSamplerGpu, SamplesASecondOfARealGpu) {
  std::string why_not;
  const PmSamplingApi* api = load_pm_sampling(why_not);
  if (api == nullptr) GTEST_SKIP() << why_not;
  Driver driver;
  if (!driver.is_ready()) GTEST_SKIP() << "the driver has no GPU";
  driver.work();
  PmSampler sampler(*api);
  const std::string refusal = sampler.start(0);
  if (!refusal.empty()) GTEST_SKIP() << "counters are not available: " << refusal;

  const std::int64_t start_ns = unix_now_ns();
  sampler.open_window(start_ns);
  while (unix_now_ns() - start_ns < 1'000'000'000) driver.work();
  const std::int64_t end_ns = unix_now_ns();
  sampler.stop();
  const PmSamples samples = sampler.take_samples();

  std::map<std::string, double> means;
  std::size_t num_sampled = 0;
  for (const PmSamples::Counter& counter : samples.counters) {
    num_sampled += counter.absent_reason.empty() ? 1 : 0;
  }
  ASSERT_GT(num_sampled, 0U);
  std::size_t column = 0;
  for (const PmSamples::Counter& counter : samples.counters) {
    if (!counter.absent_reason.empty()) {
      fmt::print("{}: {}\n", counter.name, counter.absent_reason);
      continue;
    }
    double sum = 0;
    for (std::size_t i = column; i < samples.values.size(); i += num_sampled) {
      sum += samples.values[i];
    }
    const double mean = sum / static_cast<double>(samples.times_ns.size());
    means[std::string(counter.name)] = mean;
    fmt::print("{}: mean {:.4f}\n", counter.name, mean);
    ++column;
  }
  const auto duration_ns = static_cast<double>(end_ns - start_ns);
  fmt::print("{} samples in {:.3f} s, {} overflows, {} missing, {} invalid, failure \"{}\"\n",
             samples.times_ns.size(), duration_ns * 1e-9, samples.num_overflows,
             samples.num_missing_samples, samples.num_invalid_samples, samples.failure);

  // One sample an interval, on our clock.
  const double expected = duration_ns / static_cast<double>(samples.interval_ns);
  const auto num_within =  // Sampling goes on until it is stopped.
      std::ranges::upper_bound(samples.times_ns, end_ns) - samples.times_ns.begin();
  EXPECT_NEAR(static_cast<double>(num_within), expected, 0.02 * expected);
  ASSERT_FALSE(samples.times_ns.empty());
  EXPECT_GE(samples.times_ns.front(), start_ns);
  EXPECT_LE(samples.times_ns.back(), unix_now_ns());
  EXPECT_EQ(samples.failure, "");
  EXPECT_EQ(samples.num_overflows, 0);
  EXPECT_EQ(samples.num_missing_samples, 0);
  if (means.contains("sm_clock")) {
    EXPECT_GT(means["sm_clock"], 300);
    EXPECT_LT(means["sm_clock"], 3000);
    means.erase("sm_clock");
  }
  for (const auto& [name, mean] : means) {
    EXPECT_GE(mean, 0) << name;
    EXPECT_LE(mean, 1.05) << name;
  }
  // Filling and copying is bound by DRAM: it writes twice as much as it reads.
  ASSERT_TRUE(means.contains("sm_active"));
  EXPECT_GT(means["sm_active"], 0.2);
  if (means.contains("dram_read") && means.contains("dram_write")) {
    EXPECT_GT(means["dram_read"], 0.05);
    EXPECT_GT(means["dram_write"], means["dram_read"]);
  }
}

}  // namespace
}  // namespace steplens
