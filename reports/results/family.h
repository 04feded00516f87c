#pragma once

#include <vector>

#include "harness/bundle.h"
#include "reports/results.h"
#include "reports/results/comparison.h"

/// The comparisons of a matrix as one family: p values that hold over all of them, and the verdicts
/// that rest on those.
namespace steplens {

/// Fills `p_value`, `p_adjusted`, `min_detectable_ratio` and, where it is still open, `verdict` of
/// all rows that can be tested. `comparisons` are those of `results.arms`, in the same order.
void decide_family(const Bundle& bundle, const std::vector<Comparison>& comparisons,
                   Results& results);

/// Outcome of an A/A whose family is decided.
AaResult summarize_aa(const Results& results);

}  // namespace steplens
