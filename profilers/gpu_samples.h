#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "profilers/nvml_gpu.h"

namespace steplens {

/// One look at a GPU. What NVML did not give is absent.
struct GpuSample {
  std::int64_t time_ns = 0;  // Since the sampler started.
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_celsius;
  std::optional<double> headroom_celsius;
  std::optional<double> power_watts;
  std::optional<double> gpu_utilization_ratio;     // Time with a kernel running, over 1/6 to 1 s.
  std::optional<double> memory_utilization_ratio;  // Time with device memory in use, over the same.
  std::optional<std::int64_t> memory_used_bytes;
  std::optional<std::uint64_t> clock_event_reasons;  // kNvmlReason bits.
};

/// Readings without a value.
struct ReadFailures {
  std::int64_t num_errors = 0;                        // Failed although GPU and driver have them.
  std::string last_error;                             // "power_watts: timeout"
  std::map<std::string, std::string> absent_reasons;  // Field -> why it had no value, last time.

  void add(const std::string& field, NvmlStatus status);
};

GpuSample read_gpu_sample(const NvmlGpu& gpu, std::int64_t time_ns, ReadFailures& failures);

/// The curves (one array a field of GpuSample, null entries where a reading failed) and their
/// summaries: mean_ and min_ of clocks, mean_power_watts, mean_gpu_utilization_ratio,
/// max_temperature_celsius, min_headroom_celsius, max_memory_used_bytes; `throttle_shares`: for
/// each reason the ratio of samples that showed it, 0 to 1; is_throttled_by_hardware: a sample
/// showed hardware slowdown, hardware thermal slowdown or power brake, and
/// num_hardware_throttled_samples. Over the samples that have the value; null if none has it, with
/// the reason in `absent_reasons` under the field's name.
nlohmann::json summarize_gpu_samples(std::span<const GpuSample> samples,
                                     const ReadFailures& failures);

}  // namespace steplens
