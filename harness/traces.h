#pragma once

#include <functional>

#include "harness/pilots.h"

namespace steplens {

/// Runs one traced block of every live arm that still lacks one, in the manifest's order, when the
/// rounds are done: `num_trace_steps` steps after the warm-up; one of whole graphs if
/// `num_graph_trace_steps` asks for it; of the worker's own arms one memory block each of
/// `num_memory_steps`; last, on a GPU, one with hardware counters of `num_counter_steps`. Where the
/// machine refuses counters to the first arm, the others are not asked. External arms are traced
/// with libsteplens_inject.so in their environment. A block that cannot be made fails no arm: a
/// note of the manifest says why it is not there. `is_time_over` is asked before each block with
/// its expected duration, s.
PhaseResult run_traces(RunParts& parts, const std::function<bool(double)>& is_time_over);

}  // namespace steplens
