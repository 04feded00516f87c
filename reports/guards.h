#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/bundle.h"
#include "reports/pairs.h"

/// What must hold before a comparison means anything: one variable, equal work, equal maths. Every
/// failure is a sentence that names arm, round, field and both values.
namespace steplens {

/// Which variables differ between an arm and its reference.
struct VariableCheck {
  /// Exactly one config key differs (none in an A/A), the blocks ran the planned configs, and their
  /// environments agree where both state a thing. External programs are never single-variable.
  bool is_single_variable = false;
  std::vector<std::string> differing_keys;  // Config keys, then "environment.<path>".
  std::vector<std::string> failures;        // Sentences, for an arm that should have been one.
};
VariableCheck check_variables(const Bundle& bundle, const Arm& arm,
                              std::span<const BlockPair> pairs);

/// Same tokens, optimizer steps, data and initial weights in every round.
struct WorkCheck {
  std::vector<std::string> failures;
  std::vector<std::string> not_checked;  // An external program left a hash out.
};
WorkCheck check_work(const Arm& arm, std::span<const BlockPair> pairs);

/// The clock_gap of a block (harness/clock_gap.h), with its arm and round.
std::optional<std::string> check_clocks(const BlockRecord& block);

/// How far two trajectories may be apart: means of |ratio - 1| over the first
/// `kNumTrajectorySteps`.
struct MathsTolerance {
  double loss_ratio = 0;
  double grad_norm_ratio = 0;
};

/// 2e-3 and 2e-2 where a side computes in bf16, fp16 or tf32; else 1e-5 and 1e-4. Between bf16 and
/// fp32 9e-5 and 2e-3 were measured; the weakest planted fault gives 8.5e-3 and 5.6e-2.
MathsTolerance maths_tolerance(const RunConfig& candidate, const RunConfig& reference);

/// Steps from the block's beginning (warm-up, then measured) whose loss and gradient norm count:
/// later ones of two correct runs drift apart by rounding alone. Of gpt2-124m on an H200 against
/// the eager step (h200-gpt2-124m-220-steps) the gradient norm of torch.compile is 3e-3 away in the
/// mean of the first 35 steps, 2e-2 of the first 60, and 8e-2 of 220; the fused C++ step as far.
inline constexpr std::size_t kNumTrajectorySteps = 40;

/// Steps of a trajectory that an fp16 arm may lose to its loss scaler: dynamic loss scaling starts
/// with a scale that overflows and halves it, so a few lost updates are its way of working. They
/// are left out of the comparison; more than these, from 2^16 down to 2^10, count as not finite.
inline constexpr std::size_t kMaxSkippedUpdates = 6;

/// Same loss and gradient-norm trajectory, same learning rates, parameters that change; of an arm
/// that is forward only, the loss of the first step, when both sides have their initial weights.
struct MathsCheck {
  std::vector<std::string> failures;
  std::vector<std::string> not_checked;
  // Largest over the rounds; absent where the contract has no trajectory check. Infinite if a value
  // was not finite.
  std::optional<double> loss_deviation_ratio;
  std::optional<double> grad_norm_deviation_ratio;
  std::optional<MathsTolerance> tolerance;  // Absent where deviations have no limit.
};
/// `reference` is the arm that `arm` is compared with.
MathsCheck check_maths(const Arm& arm, const Arm& reference, std::span<const BlockPair> pairs);

}  // namespace steplens
