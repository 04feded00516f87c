#include "harness/running_estimates.h"

#include <cmath>

namespace steplens {

void RunningEstimates::add(const BlockRecord& record) {
  log_rates_[{record.arm, record.round_index}] = std::log(valid_tokens_per_s(record));
}

std::vector<ArmEstimate> RunningEstimates::estimates(const Manifest& manifest) const {
  std::vector<ArmEstimate> result;
  for (const Arm& arm : manifest.arms) {
    if (arm.reference.empty() || !is_live(manifest, arm)) continue;
    std::vector<double> log_ratios;
    for (const RoundRecord& round : manifest.rounds) {
      if (!round.is_complete || !round.dropped_reason.empty()) continue;
      const auto candidate = log_rates_.find({arm.name, round.index});
      const auto reference = log_rates_.find({arm.reference, round.index});
      if (candidate != log_rates_.end() && reference != log_rates_.end()) {
        log_ratios.push_back(candidate->second - reference->second);
      }
    }
    if (!log_ratios.empty()) {
      result.push_back({.arm = arm.name, .estimate = estimate_log_ratio(log_ratios)});
    }
  }
  return result;
}

bool is_live(const Manifest& manifest, const Arm& arm) {
  return arm.not_applicable_reason.empty() && !manifest.failed_arms.contains(arm.name);
}

}  // namespace steplens
