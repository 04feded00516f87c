#pragma once

#include <nlohmann/json.hpp>

#include "harness/run_config.h"

namespace steplens {

/// Prepares this process for the config: visible GPU, allocator, threads, TF32. Call before
/// anything touches a tensor. DeviceError if the GPU cannot be used.
void prepare_process(const RunConfig& config, const std::string& gpu_uuid);

/// Library versions, device and settings that must be equal between the arms of a matrix; for
/// block.json's `environment`. No host name, no paths.
nlohmann::json environment_of(const RunConfig& config);

/// Forgets the peaks so far (allocator's counters; resident set on a CPU).
void reset_memory_peaks(const RunConfig& config);

/// block.json's `memory`. CUDA: peak_allocated_bytes, peak_active_bytes, peak_reserved_bytes,
/// graph_pool_hidden_bytes (already inside the three peaks), num_alloc_retries, num_ooms,
/// num_device_allocs, driver_used_bytes, driver_total_bytes, unaccounted_bytes (driver-used minus
/// reserved: context, libraries' workspaces, other processes). CPU: peak_rss_bytes, and
/// peak_allocated_bytes null with a reason.
nlohmann::json memory_of(const RunConfig& config, std::int64_t graph_hidden_bytes);

/// Device mallocs, frees and allocator retries so far: a step in which it moved is not steady.
std::int64_t num_allocator_events(const RunConfig& config);

/// True if any segment of the caching allocator is expandable.
bool has_expandable_segments(const RunConfig& config);

}  // namespace steplens
