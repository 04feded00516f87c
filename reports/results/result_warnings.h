#pragma once

#include <string>
#include <vector>

#include "harness/bundle.h"
#include "reports/results.h"
#include "reports/results/comparison.h"

namespace steplens {

/// What a careful reader of finished results must know, one sentence each, the manifest's notes
/// last. `comparisons` are those of `results.arms`, in the same order.
std::vector<std::string> result_warnings(const Bundle& bundle,
                                         const std::vector<Comparison>& comparisons,
                                         const Results& results);

}  // namespace steplens
