#include "reports/overhead/tracing_cost.h"

#include <cmath>
#include <map>
#include <string_view>

#include "harness/json_field.h"
#include "harness/statistics.h"
#include "reports/pairs.h"
#include "reports/results/averages.h"

namespace steplens {
namespace {

constexpr std::string_view kTorchEager = "torch-eager";  // scripts/arms
constexpr std::string_view kTorchProfiler = "torch-profiler";

// Of a block's evidence: a number in one of its groups.
std::optional<double> evidence_at(const BlockRecord& block, const char* group, const char* name) {
  if (!block.evidence.is_object() || !block.evidence.contains(group)) return std::nullopt;
  return number_at(block.evidence.at(group), name);
}

std::optional<double> num_kernels_of(const BlockRecord& block) {
  const auto of_collector = evidence_at(block, "counters", "traced_kernels");
  if (of_collector && *of_collector > 0) {
    return *of_collector / static_cast<double>(block.steps.size());
  }
  return evidence_at(block, "profiler", "num_kernels");
}

std::optional<TracingCost> cost_of(const Bundle& bundle, std::string_view arm,
                                   std::string_view against) {
  std::map<int, double> step_ns_of_round;
  for (const BlockRecord* block : usable_blocks(bundle, against)) {
    step_ns_of_round[block->round_index] = mean_step_wall_ns(*block);
  }
  TracingCost cost{.arm = std::string(arm), .against = std::string(against)};
  std::vector<double> log_ratios;
  const std::vector<const BlockRecord*> blocks = usable_blocks(bundle, arm);
  for (const BlockRecord* block : blocks) {
    const auto other = step_ns_of_round.find(block->round_index);
    if (other == step_ns_of_round.end()) continue;
    log_ratios.push_back(std::log(mean_step_wall_ns(*block) / other->second));
    cost.against_step_ns += other->second;
  }
  if (log_ratios.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(log_ratios.size());
  const Estimate estimate = estimate_log_ratio(log_ratios);
  cost.num_rounds = estimate.num_rounds;
  cost.cost_ratio = std::expm1(estimate.mean_log_ratio);
  cost.cost_low_ratio = std::expm1(estimate.low_log_ratio);
  cost.cost_high_ratio = std::expm1(estimate.high_log_ratio);
  cost.cost_upper_ratio =
      std::expm1(estimate.mean_log_ratio +
                 student_t_quantile(0.95, n - 1) * estimate.standard_deviation / std::sqrt(n));
  cost.against_step_ns /= n;
  cost.num_recorded_kernels = median_of(collect(blocks, num_kernels_of));
  const double num_kernels = cost.num_recorded_kernels.value_or(0);
  if (cost.cost_low_ratio > 0 && num_kernels > 0) {
    cost.kernel_cost_ns = cost.cost_ratio * cost.against_step_ns / num_kernels;
  }
  return cost;
}

}  // namespace

std::optional<TracingCosts> compute_tracing_costs(const Bundle& bundle) {
  TracingCosts costs;
  std::string null_arm;
  std::string full_arm;
  for (const Arm& arm : bundle.manifest.arms) {
    if (!arm.command.empty() || arm.toggle != "tracing") continue;
    if (auto cost = cost_of(bundle, arm.name, arm.reference)) costs.of_steplens.push_back(*cost);
    (arm.config.tracing == Tracing::kNull ? null_arm : full_arm) = arm.name;
  }
  if (!null_arm.empty() && !full_arm.empty()) {
    costs.of_collector = cost_of(bundle, full_arm, null_arm);
  }
  if (find_arm(bundle.manifest, kTorchProfiler) != nullptr &&
      find_arm(bundle.manifest, kTorchEager) != nullptr) {
    costs.of_torch_profiler = cost_of(bundle, kTorchProfiler, kTorchEager);
    const std::vector<const BlockRecord*> blocks = usable_blocks(bundle, kTorchProfiler);
    costs.torch_profiler_kernel_ns = median_of(collect(blocks, [](const BlockRecord& block) {
      return evidence_at(block, "profiler", "kernel_ns");
    }));
    costs.torch_profiler_num_kernels = median_of(collect(blocks, [](const BlockRecord& block) {
      return evidence_at(block, "profiler", "num_kernels");
    }));
  }
  if (costs.of_steplens.empty() && !costs.of_torch_profiler) return std::nullopt;
  return costs;
}

}  // namespace steplens
