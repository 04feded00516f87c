#pragma once

#include "viewer/data/trace_model.h"

namespace steplens {

/// Adds the lanes that follow from others: steps, phases and modules on the device (runs of
/// operations of the busiest stream) and waits; and puts all lanes in the order in which they are
/// drawn. `step_bounds_ns` and the lanes of operations must be there.
void add_derived_lanes(TraceModel& model);

}  // namespace steplens
