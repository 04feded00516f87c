#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/bundle.h"
#include "reports/pairs.h"
#include "reports/results.h"

namespace steplens {

/// What is worked out about a comparison before the family of all of them is known.
struct Comparison {
  std::vector<BlockPair> pairs;
  std::vector<double> log_ratios;  // Of valid_tokens_per_s, one a pair.
  std::vector<std::string> not_checked;
};

/// Everything about a comparison except what needs the whole family: estimate, guards and proof go
/// into `row`, whose `verdict` is set where it is already decided. `results` has the failures and
/// the rule.
Comparison compare_with_reference(const Bundle& bundle, const Arm& arm, const Results& results,
                                  ArmResult& row);

/// Why the arm was given up; absent if it was not.
std::optional<std::string> failure_of(const Manifest& manifest, const std::string& arm);

}  // namespace steplens
