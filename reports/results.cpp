#include "reports/results.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "harness/error.h"
#include "harness/statistics.h"
#include "reports/guards.h"
#include "reports/pairs.h"
#include "reports/results/arm_numbers.h"
#include "reports/results/averages.h"
#include "reports/results/comparison.h"
#include "reports/results/family.h"
#include "reports/results/result_warnings.h"

namespace steplens {
namespace {

void add_failures(const Bundle& bundle, Results& results) {
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    const BlockRecord& block = bundle.blocks[i];
    const BlockEntry& entry = bundle.manifest.blocks[i];
    const bool is_ok = block.status == BlockStatus::kOk;
    const std::string_view why =
        is_ok && block.kind == BlockKind::kThroughput ? why_unusable(block) : std::string_view();
    if (is_ok && why.empty()) continue;
    results.failures.push_back({.arm = entry.arm,
                                .folder = entry.folder,
                                .status = is_ok ? "unusable" : std::string(name_of(block.status)),
                                .reason = is_ok ? std::string(why) : block.reason});
  }
}

void add_times(const Bundle& bundle, Results& results) {
  double first_s = 0;
  double last_s = 0;
  double blocks_ns = 0;
  for (std::size_t i = 0; i < bundle.manifest.blocks.size(); ++i) {
    const BlockEntry& entry = bundle.manifest.blocks[i];
    const double end_s = entry.start_s + entry.duration_s;
    first_s = i == 0 ? entry.start_s : std::min(first_s, entry.start_s);
    last_s = i == 0 ? end_s : std::max(last_s, end_s);
    blocks_ns += entry.duration_s * 1e9;
  }
  results.wall_ns = (last_s - first_s) * 1e9;
  for (const Arm& arm : bundle.manifest.arms) {
    for (const BlockRecord* block : usable_blocks(bundle, arm.name)) {
      results.measured_ns += static_cast<double>(sum_of(block->steps.step_wall_ns));
    }
  }
  if (blocks_ns > 0) results.measured_share_ratio = results.measured_ns / blocks_ns;
}

void add_drift(const Bundle& bundle, Results& results) {
  std::vector<std::vector<double>> log_rates_by_arm;
  const auto num_rounds = static_cast<std::size_t>(results.num_rounds_complete);
  std::vector<double> round_mean_log_times(num_rounds, 0.0);
  for (const Arm& arm : bundle.manifest.arms) {
    const std::vector<const BlockRecord*> blocks = usable_blocks(bundle, arm.name);
    if (blocks.size() != num_rounds) continue;  // Its gaps would look like jumps.
    std::vector<double>& log_rates = log_rates_by_arm.emplace_back();
    for (std::size_t r = 0; r < num_rounds; ++r) {
      log_rates.push_back(std::log(valid_tokens_per_s(*blocks[r])));
      round_mean_log_times[r] += std::log(mean_step_wall_ns(*blocks[r]));
    }
  }
  if (log_rates_by_arm.size() < 2 || num_rounds < 3) return;
  for (double& value : round_mean_log_times) value /= static_cast<double>(log_rates_by_arm.size());
  results.has_drift =
      has_drift(round_mean_log_times, pooled_block_standard_deviation(log_rates_by_arm));
}

void add_noise_flags(Results& results) {
  for (ArmResult& row : results.arms) {
    const ArmResult* reference = find_arm(results, row.reference);
    if (reference == nullptr || !row.block_sd_ratio || !reference->block_sd_ratio) continue;
    row.has_unequal_noise = has_unequal_noise(*row.block_sd_ratio, *reference->block_sd_ratio);
    if (row.has_unequal_noise) row.labels.emplace_back("unequal noise");
  }
}

VerdictRule rule_of(const Manifest& manifest) {
  VerdictRule rule = manifest.until_halfwidth_ratio ? kUntilHalfwidthRule : VerdictRule{};
  rule.equivalence_ratio = manifest.equivalence_ratio;
  return rule;
}

}  // namespace

Results compute_results(const Bundle& bundle) {
  const Manifest& manifest = bundle.manifest;
  SL_CHECK(bundle.blocks.size() == manifest.blocks.size());
  Results results{.rule = rule_of(manifest),
                  .num_rounds_planned = manifest.num_rounds_planned,
                  .stop_reason = manifest.stop_reason};
  for (const RoundRecord& round : manifest.rounds) {
    if (is_usable(round)) ++results.num_rounds_complete;
    if (!round.dropped_reason.empty()) ++results.num_rounds_dropped;
  }
  add_failures(bundle, results);

  std::vector<Comparison> comparisons;
  for (const Arm& arm : manifest.arms) {
    ArmResult row = describe_arm(bundle, arm);
    row.num_failed_blocks =
        static_cast<int>(std::ranges::count(results.failures, arm.name, &BlockFailure::arm));
    Comparison comparison;
    if (!row.is_applicable) {
      const VariableCheck variables = check_variables(bundle, arm, {});
      row.is_single_variable = variables.is_single_variable;
      row.differing_keys = variables.differing_keys;
    } else if (!arm.reference.empty()) {
      comparison = compare_with_reference(bundle, arm, results, row);
    } else {
      row.reason = failure_of(manifest, arm.name).value_or("");
    }
    comparisons.push_back(std::move(comparison));
    results.arms.push_back(std::move(row));
  }
  decide_family(bundle, comparisons, results);
  if (manifest.num_aa > 0) results.aa = summarize_aa(results);
  results.tracing_costs = compute_tracing_costs(bundle);
  add_noise_flags(results);
  add_times(bundle, results);
  add_drift(bundle, results);
  std::ranges::move(result_warnings(bundle, comparisons, results),
                    std::back_inserter(results.warnings));
  return results;
}

const ArmResult* find_arm(const Results& results, std::string_view name) {
  const auto it = std::ranges::find(results.arms, name, &ArmResult::name);
  return it == results.arms.end() ? nullptr : &*it;
}

const ArmResult* baseline_of(const Results& results) {
  const auto it = std::ranges::find(results.arms, true, &ArmResult::is_baseline);
  if (it != results.arms.end()) return &*it;
  return results.arms.empty() ? nullptr : &results.arms.front();
}

}  // namespace steplens
