#include "workloads/spin.h"

#include <chrono>

#include <c10/cuda/CUDAStream.h>

#include "kernels/spin/spin.h"

namespace steplens {

void spin(Device device, std::int64_t duration_ns) {
  if (device == Device::kCuda) {
    launch_spin({.duration_ns = duration_ns}, c10::cuda::getCurrentCUDAStream().stream());
    return;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(duration_ns);
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace steplens
