#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/counters/counter_use.h"
#include "reports/document.h"

/// What the report says about hardware counters. Everything is empty without an arm that has some.
namespace steplens {

/// One arm's counters block as the report uses it.
struct CounterArm {
  std::string arm;
  CounterSummary summary;
  std::optional<double> step_ns;             // Mean step of this block,
  std::optional<double> throughput_step_ns;  // and of those in which nothing is recorded.
};

/// One row an arm: mean and 95th percentile of each counter, and what sampling cost.
Table counter_table(std::span<const CounterArm> arms);

/// One row an arm and phase: the means while operations of that phase ran.
Table counter_phase_table(std::span<const CounterArm> arms);

/// What is not available and why, and what was lost; sentences.
std::vector<std::string> counter_notes(std::span<const CounterArm> arms);

}  // namespace steplens
