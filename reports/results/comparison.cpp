#include "reports/results/comparison.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/json_field.h"
#include "harness/statistics.h"
#include "reports/guards.h"
#include "reports/results/averages.h"

namespace steplens {
namespace {

// METHOD rule 13: beyond it the ratio is shown per clock cycle too.
constexpr double kMaxClockDifference = 0.01;

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void add_clock_label(const Comparison& comparison, ArmResult& row) {
  double log_clock_ratio = 0;
  double candidate_mhz = 0;
  double reference_mhz = 0;
  for (const BlockPair& pair : comparison.pairs) {
    const auto candidate = number_at(pair.candidate->samples, "mean_sm_clock_mhz");
    const auto reference = number_at(pair.reference->samples, "mean_sm_clock_mhz");
    if (!candidate || !reference || *candidate <= 0 || *reference <= 0) return;
    log_clock_ratio += std::log(*candidate / *reference);
    candidate_mhz += *candidate;
    reference_mhz += *reference;
  }
  if (comparison.pairs.empty() || !row.effect_ratio) return;
  if (std::abs(candidate_mhz / reference_mhz - 1) <= kMaxClockDifference) return;
  row.labels.emplace_back("clock-mediated");
  row.effect_per_cycle_ratio = finite(
      *row.effect_ratio / std::exp(log_clock_ratio / static_cast<double>(comparison.pairs.size())));
}

void add_estimate(const Comparison& comparison, const VerdictRule& rule, ArmResult& row) {
  const Estimate estimate = estimate_log_ratio(comparison.log_ratios, rule.confidence);
  row.effect_ratio = finite(std::exp(estimate.mean_log_ratio));
  if (std::isfinite(estimate.low_log_ratio) && std::isfinite(estimate.high_log_ratio)) {
    row.effect_low_ratio = finite(std::exp(estimate.low_log_ratio));
    row.effect_high_ratio = finite(std::exp(estimate.high_log_ratio));
    row.is_within_one_percent = is_within_one_percent(estimate, rule);
  }
  add_clock_label(comparison, row);
}

void add_guards(const Bundle& bundle, const Arm& arm, Comparison& comparison, ArmResult& row) {
  const VariableCheck variables = check_variables(bundle, arm, comparison.pairs);
  row.is_single_variable = variables.is_single_variable;
  row.differing_keys = variables.differing_keys;
  if (!row.is_single_variable) row.labels.emplace_back("multi-variable");

  const Arm* reference = find_arm(bundle.manifest, arm.reference);
  const WorkCheck work = check_work(arm, comparison.pairs);
  MathsCheck maths;
  if (reference != nullptr) maths = check_maths(arm, *reference, comparison.pairs);
  row.loss_deviation_ratio = finite(maths.loss_deviation_ratio);
  row.grad_norm_deviation_ratio = finite(maths.grad_norm_deviation_ratio);
  if (maths.tolerance) {
    row.loss_tolerance_ratio = maths.tolerance->loss_ratio;
    if (arm.contract != Contract::kForwardOnly) {
      row.grad_norm_tolerance_ratio = maths.tolerance->grad_norm_ratio;
    }
  }
  append(row.guard_failures, variables.failures);
  append(row.guard_failures, work.failures);
  append(row.guard_failures, maths.failures);
  append(comparison.not_checked, work.not_checked);
  append(comparison.not_checked, maths.not_checked);
  if (!comparison.not_checked.empty()) row.labels.emplace_back("work not fully checked");
  if (row.verdict == Verdict::kFailed) return;
  if (!work.failures.empty()) {
    row.verdict = Verdict::kFailed;
    row.reason = "unequal work: " + work.failures.front();
  } else if (!maths.failures.empty()) {
    row.verdict = Verdict::kMathsDiffers;
    row.reason = maths.failures.front();
  }
}

std::string why_no_pairs(const Results& results, const ArmResult& row) {
  std::string reason = results.num_rounds_complete == 0
                           ? "no round is complete"
                           : fmt::format("no complete round holds a good block of both {} and {}",
                                         row.name, row.reference);
  for (auto it = results.failures.rbegin(); it != results.failures.rend(); ++it) {
    if (it->arm == row.name) {
      return fmt::format("{}; its last failure was {}: {}", reason, it->status, it->reason);
    }
  }
  return reason;
}

}  // namespace

Comparison compare_with_reference(const Bundle& bundle, const Arm& arm, const Results& results,
                                  ArmResult& row) {
  Comparison comparison{.pairs = block_pairs(bundle, arm)};
  for (const BlockPair& pair : comparison.pairs) {
    comparison.log_ratios.push_back(std::log(valid_tokens_per_s(*pair.candidate)) -
                                    std::log(valid_tokens_per_s(*pair.reference)));
  }
  row.num_rounds = static_cast<int>(comparison.pairs.size());
  if (const std::optional<std::string> reason = failure_of(bundle.manifest, arm.name)) {
    row.verdict = Verdict::kFailed;
    row.reason = *reason;
  }
  add_guards(bundle, arm, comparison, row);
  const ProofResult proof = prove(bundle, arm);
  row.proof = proof.proof;
  row.proof_reason = proof.reason;
  row.proof_checks = proof.checks;
  if (row.verdict == Verdict::kFailed) return comparison;
  if (comparison.pairs.empty()) {
    row.verdict = Verdict::kNotEnoughRounds;
    row.reason = why_no_pairs(results, row);
    return comparison;
  }
  if (row.contract == Contract::kForwardOnly) {
    row.labels.emplace_back("forward only");
    return comparison;
  }
  add_estimate(comparison, results.rule, row);
  if (row.proof == Proof::kNoEffect) {
    row.verdict = Verdict::kNoEffect;
    row.reason = proof.reason;
  } else if (row.num_rounds < results.rule.min_rounds && !row.verdict) {
    row.verdict = Verdict::kNotEnoughRounds;
    row.reason = fmt::format("{} rounds of at least {}", row.num_rounds, results.rule.min_rounds);
  }
  if (row.contract == Contract::kDifferentMaths) row.labels.emplace_back("different maths");
  if (row.contract == Contract::kLowerPrecision) row.labels.emplace_back("lower precision");
  return comparison;
}

std::optional<std::string> failure_of(const Manifest& manifest, const std::string& arm) {
  if (!manifest.failed_arms.is_object() || !manifest.failed_arms.contains(arm)) return std::nullopt;
  const nlohmann::json& reason = manifest.failed_arms.at(arm);
  return reason.is_string() ? reason.get<std::string>() : reason.dump();
}

}  // namespace steplens
