#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace steplens {

/// Occupies one thread of the GPU for `duration_ns` of the global timer: a slowdown of known size.
/// Moves no memory and computes nothing. The timer's resolution is about 32 ns on Hopper and up to
/// 1 us on older chips; the launch itself adds a few microseconds where the stream is idle.
struct SpinArgs {
  std::int64_t duration_ns = 0;  // 0 to 10 s; longer is refused, since nothing can stop a kernel.
};

inline constexpr std::int64_t kMaxSpinNs = 10'000'000'000;

/// Only enqueues on `stream`. Throws DeviceError if the launch fails, ConfigError for a duration
/// outside 0 to kMaxSpinNs.
void launch_spin(const SpinArgs& args, cudaStream_t stream);

}  // namespace steplens
