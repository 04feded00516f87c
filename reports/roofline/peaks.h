#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harness/run_config.h"

/// What a GPU can do at best, and who says so.
namespace steplens {

struct PeakRate {
  double per_s = 0;  // FLOP/s or bytes/s.
  std::string source;
};

/// Bandwidth of the device memory of the GPU with this NVML name. Absent for an unknown GPU and a
/// MIG slice.
std::optional<PeakRate> peak_memory_bytes_per_s(std::string_view gpu_name);

/// Dense peak of matrix products of that precision: of bf16 and fp16 what `peak_bf16_flops_per_s`
/// says, of tf32 half of it. Absent for an unknown GPU and for fp32, whose products do not run on
/// the tensor cores.
std::optional<PeakRate> peak_matmul_flops_per_s(std::string_view gpu_name, Precision precision);

}  // namespace steplens
