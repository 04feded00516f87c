#pragma once

#include <optional>

#include "viewer/data/trace_model.h"

namespace steplens {

/// The slice in another arm's trace that stands for the same piece of work: in a lane of the same
/// kind, of the same name, in the step of the same number, and as many of that name before it
/// within the step. Nothing where there is none, and of slices outside all steps.
std::optional<SliceRef> find_counterpart(const TraceModel& from, const SliceRef& ref,
                                         const TraceModel& to);

}  // namespace steplens
