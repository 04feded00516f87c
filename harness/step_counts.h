#pragma once

#include <cstdint>
#include <span>

#include "harness/bundle.h"

namespace steplens {

/// Steps of one block: thrown away, then measured.
struct StepCounts {
  std::int64_t num_warmup_steps = 0;
  std::int64_t num_measured_steps = 0;

  bool operator==(const StepCounts&) const = default;
};

/// Eager steps of `graph=on` before its capture. cuBLAS and cuDNN handles of the autograd thread,
/// optimizer state and lazily loaded modules must all exist by then: 5. With the Reducer 11,
/// because it times its first ten steps by events, which a capture does not allow.
std::int64_t num_steps_before_capture(const RunConfig& config);

/// Measured steps of the baseline whose pilot took `step_wall_ns` a step: 30, or what fits 10 s,
/// but at least 5. `step_wall_ns` > 0.
std::int64_t num_measured_steps_for(double step_wall_ns);

/// Rounds the baseline's counts up until every applicable arm can process the same rows in whole
/// steps. Without accumulation that holds the micro-batch all steps have the same rows, and nothing
/// changes. `arms[0]` is the baseline.
StepCounts rounded_counts(StepCounts baseline_counts, std::span<const Arm> arms);

/// The arm's share of the baseline's counts: the same rows in its own steps. With the micro-batch
/// held, an arm with accumulation 4 takes a quarter of the steps of one with 1.
StepCounts counts_of(StepCounts baseline_counts, const RunConfig& baseline, const RunConfig& arm);

/// Steps of the baseline that process the rows of `num_steps` of the arm, rounded up.
std::int64_t in_baseline_steps(std::int64_t num_steps, const RunConfig& arm,
                               const RunConfig& baseline);

}  // namespace steplens
