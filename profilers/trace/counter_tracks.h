#pragma once

#include <nlohmann/json.hpp>

#include "harness/trace/trace.h"
#include "profilers/trace/pm_samples.h"

namespace steplens {

/// Adds the curves of a block sampler (the JSON of its `stop`) to the trace as counter tracks, on
/// the trace's clock: sm_clock, memory_clock (MHz), temperature (C), power (W), gpu_utilization,
/// memory_utilization (0 to 1), memory_used (B); on a CPU cpu_clock (MHz). A curve that the sampler
/// could not read becomes a track without samples and with the reason.
void add_counter_tracks(const nlohmann::json& samples, Trace& trace);

/// Adds sampled hardware counters as tracks in "ratio", on the trace's clock, their names as
/// `info.hardware_counters`, and what was lost to its quality counters. A counter that is absent
/// becomes a track without samples and with the reason; where all are, `info` has the first one's
/// reason as "counters_absent_reason".
void add_pm_samples(const PmSamples& samples, Trace& trace);

}  // namespace steplens
