#pragma once

#include <string>

#include "harness/bundle.h"
#include "reports/results.h"

/// Plots of raw blocks. Each is an SVG file's text; empty where there is nothing to draw.
namespace steplens {

/// One histogram an arm of all steps of its usable blocks, as deviations from the arm's own median
/// in percent, all on one axis; median, 90th and 99th percentile are marked.
std::string step_distribution_svg(const Bundle& bundle, const Results& results);

/// Every throughput block at the time at which it ran: its rate against the mean of its arm, and
/// below it the machine: SM clock, power, temperature. The baseline's blocks are joined, so that
/// drift shows; failed and superseded blocks are marked.
std::string run_order_svg(const Bundle& bundle, const Results& results);

/// Loss and gradient norm of each arm's first pair of blocks, warm-up included, one over the other,
/// and below it how far each leaves its reference, step by step, beside what is allowed.
std::string trajectory_svg(const Bundle& bundle, const Results& results);

}  // namespace steplens
