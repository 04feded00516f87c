#pragma once

#include <nlohmann/json.hpp>

#include "harness/trace/trace.h"

namespace steplens {

/// Adds the curves of a block sampler (the JSON of its `stop`) to the trace as counter tracks, on
/// the trace's clock: sm_clock, memory_clock (MHz), temperature (C), power (W), gpu_utilization,
/// memory_utilization (0 to 1), memory_used (B); on a CPU cpu_clock (MHz). A curve that the sampler
/// could not read becomes a track without samples and with the reason.
void add_counter_tracks(const nlohmann::json& samples, Trace& trace);

}  // namespace steplens
