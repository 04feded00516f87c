#include "kernels/spin/spin.h"

#include <string>

#include <cuda_runtime.h>

#include "harness/error.h"
#include "kernels/cuda_check.h"

namespace steplens {
namespace {

__device__ std::uint64_t global_timer_ns() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_kernel(std::int64_t duration_ns) {
  const std::uint64_t start = global_timer_ns();
  while (static_cast<std::int64_t>(global_timer_ns() - start) < duration_ns) {
    __nanosleep(100);  // Leaves the issue slots of its multiprocessor to the step's kernels.
  }
}

}  // namespace

void launch_spin(const SpinArgs& args, cudaStream_t stream) {
  if (args.duration_ns < 0 || args.duration_ns > kMaxSpinNs) {
    throw ConfigError("duration_ns=" + std::to_string(args.duration_ns) +
                      ": takes 0 to 10000000000");
  }
  spin_kernel<<<1, 1, 0, stream>>>(args.duration_ns);
  SL_CUDA(cudaGetLastError());
}

}  // namespace steplens
