#include "kernels/spin/spin.h"

#include <gtest/gtest.h>

#include "harness/error.h"
#include "kernels/cuda_check.h"
#include "kernels/device.h"

namespace steplens {
namespace {

TEST(LaunchSpin, RefusesDurationsThatNothingCouldStop) {
  EXPECT_THROW(launch_spin({.duration_ns = -1}, nullptr), ConfigError);
  EXPECT_THROW(launch_spin({.duration_ns = kMaxSpinNs + 1}, nullptr), ConfigError);
}

TEST(LaunchSpin, OccupiesTheStreamForTheDurationAsked) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  SL_CUDA(cudaEventCreate(&start));
  SL_CUDA(cudaEventCreate(&end));
  launch_spin({.duration_ns = 1000}, nullptr);  // Loads the module.
  for (const std::int64_t duration_ns : {std::int64_t{200'000}, std::int64_t{5'000'000}}) {
    SL_CUDA(cudaEventRecord(start, nullptr));
    launch_spin({.duration_ns = duration_ns}, nullptr);
    SL_CUDA(cudaEventRecord(end, nullptr));
    SL_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    SL_CUDA(cudaEventElapsedTime(&ms, start, end));
    // Never shorter by more than the timer's 1 us; the launch adds some microseconds.
    EXPECT_GE(ms * 1e6, static_cast<double>(duration_ns) - 2e3);
    EXPECT_LE(ms * 1e6, static_cast<double>(duration_ns) + 2e5);
  }
  SL_CUDA(cudaEventDestroy(start));
  SL_CUDA(cudaEventDestroy(end));
}

}  // namespace
}  // namespace steplens
