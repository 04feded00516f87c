#pragma once

#include <vector>

#include "harness/bundle.h"
#include "reports/breakdown/traced_arm.h"
#include "reports/results.h"

namespace steplens {

/// Breakdown and communication of every arm with a trace, in the table's order; with several ranks
/// the breakdown is rank 0's. A trace that cannot be read is not worth the report: its reason goes
/// to stderr.
std::vector<TracedArm> read_traced_arms(const Bundle& bundle, const Results& results);

}  // namespace steplens
