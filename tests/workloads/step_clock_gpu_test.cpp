#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include "kernels/spin/spin.h"
#include "workloads/step_clock.h"

namespace steplens {
namespace {

constexpr std::int64_t kNumWarmupSteps = 2;
constexpr std::int64_t kNumSteps = 22;

// Steps of 2 ms on the device; the host takes `host_ms` to enqueue one, `first_host_ms` the first.
ClockedSteps run_steps(Instrumentation instrumentation, double host_ms, double first_host_ms) {
  RunConfig config;
  config.device = Device::kCuda;
  config.instrumentation = instrumentation;
  const auto clock = make_step_clock(config, kNumWarmupSteps, kNumSteps, /*is_pilot=*/false);
  clock->start();
  for (std::int64_t i = 0; i < kNumSteps; ++i) {
    std::this_thread::sleep_for(
        std::chrono::duration<double, std::milli>(i == 0 ? first_host_ms : host_ms));
    launch_spin({.duration_ns = 2'000'000}, c10::cuda::getCurrentCUDAStream());
    clock->end_step();
  }
  return clock->finish();
}

std::int64_t measured_ns(const std::vector<std::int64_t>& steps) {
  return std::accumulate(steps.begin() + kNumWarmupSteps, steps.end(), std::int64_t{0});
}

TEST(CudaClock, CountsTheMeasuredStepsWholeWhateverTheHostIsBusyWith) {
  if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  // The host ahead of the device, just behind it, and far behind it.
  for (const double host_ms : {0.1, 1.7, 4.0}) {
    ClockedSteps times = run_steps(Instrumentation::kFull, host_ms, 20);
    ASSERT_EQ(times.wall_ns.size(), static_cast<std::size_t>(kNumSteps));
    ASSERT_EQ(times.gpu_ns.size(), static_cast<std::size_t>(kNumSteps));
    EXPECT_NEAR(static_cast<double>(measured_ns(times.wall_ns)),
                static_cast<double>(measured_ns(times.gpu_ns)),
                0.005 * static_cast<double>(measured_ns(times.gpu_ns)))
        << host_ms << " ms";
    EXPECT_EQ(times.measured_wall_ns, measured_ns(times.wall_ns));
    EXPECT_GE(times.measured_wall_ns, 2'000'000 * (kNumSteps - kNumWarmupSteps));

    const ClockedSteps bare = run_steps(Instrumentation::kMinimal, host_ms, 20);
    EXPECT_TRUE(bare.gpu_ns.empty());
    EXPECT_EQ(bare.measured_wall_ns, measured_ns(bare.wall_ns));
    EXPECT_NEAR(static_cast<double>(bare.measured_wall_ns),
                static_cast<double>(times.measured_wall_ns),
                0.02 * static_cast<double>(times.measured_wall_ns))
        << host_ms << " ms";
  }
}

}  // namespace
}  // namespace steplens
