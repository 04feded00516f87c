#include "reports/breakdown/traced_arm.h"

#include <algorithm>

namespace steplens {

std::optional<double> trace_ratio(const TracedArm& arm) {
  const double traced_ns = arm.breakdown.mean_step_ns();
  if (!arm.throughput_step_ns || *arm.throughput_step_ns <= 0 || traced_ns <= 0) {
    return std::nullopt;
  }
  return traced_ns / *arm.throughput_step_ns;
}

bool is_distorted(const TracedArm& arm) {
  const std::optional<double> ratio = trace_ratio(arm);
  return ratio && *ratio > kDistortedRatio;
}

const TracedArm* find_traced_arm(std::span<const TracedArm> arms, std::string_view name) {
  const auto it = std::ranges::find(arms, name, &TracedArm::arm);
  return it == arms.end() ? nullptr : &*it;
}

}  // namespace steplens
