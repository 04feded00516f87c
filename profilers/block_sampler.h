#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/machine.h"
#include "profilers/host.h"
#include "profilers/nvml.h"

namespace steplens {

/// How often a GPU is looked at. Inside the driver utilisation is an average over 1/6 to 1 s and
/// power one over 1 s (nvml.h), so that a shorter period would show little more.
inline constexpr std::chrono::nanoseconds kGpuSamplePeriod = std::chrono::milliseconds(100);

/// How often a CPU's frequency is looked at. The kernel writes all of /proc/cpuinfo for it: 35 us
/// with 2 CPUs, and in proportion to their number.
inline constexpr std::chrono::nanoseconds kCpuSamplePeriod = std::chrono::seconds(1);

/// Samples one GPU by NVML, or the CPU if `gpu_uuid` is empty, on a thread of its own between
/// `start` and `stop`; can be started again. `stop` gives in both cases num_samples,
/// start_unix_ns, period_ns, duration_ns, time_ns (since the start), what host_usage() gives, and
/// the sampler's own cost: sampling_ns (wall time inside the readings) and sampling_cost_ratio (of
/// duration_ns). Then
/// - GPU: what summarize_gpu_samples() gives, and energy_j by the GPU's own counter; without NVML
///   or with no such GPU all of it null, and `absent_reasons.gpu` says why: the block is usable;
/// - CPU: cpu_mhz, the mean over all CPUs as a curve, and mean_cpu_mhz.
/// `start` resets the process's peak resident set.
std::unique_ptr<Sampler> make_block_sampler(const std::string& gpu_uuid);

/// The same with given parts, for tests. `nvml` must outlive the sampler.
std::unique_ptr<Sampler> make_gpu_sampler(const Nvml& nvml, const std::string& gpu_uuid, Host host,
                                          std::chrono::nanoseconds period);
std::unique_ptr<Sampler> make_cpu_sampler(Host host, std::chrono::nanoseconds period);

/// True if `samples`, the result of `stop`, shows that the hardware slowed the GPU down: the block
/// is invalid. False also where this is not known (CPU, no NVML).
bool is_throttled_by_hardware(const nlohmann::json& samples);

}  // namespace steplens
