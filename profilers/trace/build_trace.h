#pragma once

#include <string>
#include <vector>

#include "harness/trace/trace.h"
#include "profilers/trace/range_recorder.h"
#include "profilers/trace/raw_records.h"

namespace steplens {

/// What was recorded, in unix ns.
struct TraceWindow {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t first_step_number = 0;  // Of the run, warm-up included.
};

/// Puts a trace together. Each device operation gets the range under which it was launched:
/// - of a graph, the range that was open when its node was captured, if one was;
/// - else, by way of its call's correlation id, the innermost range open on the calling thread. A
///   thread that opened no step (autograd's, a loader's) lies below what the step's thread has open
///   at that time; a range of a phase does so beside that thread's own phase.
/// Step and micro-step come from the time of the launch, the phase from the nearest range that
/// names one. What was launched before the window is left out and counted, driver calls that a
/// runtime call made are folded into it, and ranges of kOperatorDomainName become operations.
/// Ranges outside of all nesting (RangeRecorder::start) are rows, but nothing lies below them.
Trace build_trace(RawRecords raw, const RangeRecorder::Snapshot& ranges,
                  const GraphNodeOrigins& node_origins, std::vector<std::string> strings,
                  const TraceWindow& window);

}  // namespace steplens
