#include "reports/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/error.h"
#include "harness/flops.h"
#include "harness/json_field.h"
#include "harness/statistics.h"
#include "reports/format.h"
#include "reports/guards.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

using nlohmann::json;
using Blocks = std::vector<const BlockRecord*>;

// METHOD rule 13: beyond it the ratio is shown per clock cycle too.
constexpr double kMaxClockDifference = 0.01;
constexpr double kRawAlpha = 0.05;

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> finite_or_absent(std::optional<double> value) {
  return value ? finite(*value) : std::nullopt;
}

// The numbers that the blocks state; a block that states none is left out.
template <typename Get>
std::vector<double> collect(const Blocks& blocks, Get get) {
  std::vector<double> values;
  for (const BlockRecord* block : blocks) {
    if (const std::optional<double> value = get(*block)) values.push_back(*value);
  }
  return values;
}

std::optional<double> median_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::optional<double> mean_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(mean(values));
}

std::optional<double> geometric_mean_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  for (double& value : values) value = std::log(value);
  return finite(std::exp(mean(values)));
}

std::optional<std::int64_t> to_integer(std::optional<double> value) {
  return value ? std::optional<std::int64_t>(std::llround(*value)) : std::nullopt;
}

OutlierCounts operator+(const OutlierCounts& a, const OutlierCounts& b) {
  return {.num_mild = a.num_mild + b.num_mild,
          .num_severe = a.num_severe + b.num_severe,
          .num_mad = a.num_mad + b.num_mad};
}

std::vector<double> to_doubles(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

double log_rate(const BlockRecord& block) { return std::log(valid_tokens_per_s(block)); }

// ---- One arm's own numbers. ----

void add_rates(const Blocks& blocks, ArmResult& row) {
  if (blocks.empty()) return;
  const auto all = [&](auto get) {
    return collect(blocks, [&](const BlockRecord& block) { return std::optional(get(block)); });
  };
  row.positions_per_s = geometric_mean_of(all(positions_per_s));
  row.valid_tokens_per_s = geometric_mean_of(all(valid_tokens_per_s));
  row.loss_tokens_per_s = geometric_mean_of(all(loss_tokens_per_s));
  row.step_wall_ns = geometric_mean_of(all(mean_step_wall_ns));
  row.step_gpu_ns = geometric_mean_of(collect(blocks, [](const BlockRecord& block) {
    return block.steps.step_gpu_ns.empty()
               ? std::nullopt
               : std::optional(mean(to_doubles(block.steps.step_gpu_ns)));
  }));

  std::vector<double> pooled_steps;
  std::int64_t data_wait_ns = 0;
  std::int64_t wall_ns = 0;
  for (const BlockRecord* block : blocks) {
    const std::vector<double> steps = to_doubles(block->steps.step_wall_ns);
    row.step_outliers = row.step_outliers + count_outliers(steps);
    pooled_steps.insert(pooled_steps.end(), steps.begin(), steps.end());
    data_wait_ns += sum(block->steps.data_wait_ns);
    wall_ns += sum(block->steps.step_wall_ns);
  }
  row.pooled_step_p50_ns = percentile(pooled_steps, 0.50);
  row.pooled_step_p90_ns = percentile(pooled_steps, 0.90);
  row.pooled_step_p99_ns = percentile(pooled_steps, 0.99);
  row.data_wait_ratio = static_cast<double>(data_wait_ns) / static_cast<double>(wall_ns);

  const std::vector<double> log_rates = all(log_rate);
  row.block_outliers = count_outliers(log_rates);
  if (log_rates.size() >= 2) {
    row.block_sd_ratio = successive_difference_standard_deviation(log_rates);
  }
  row.compile_ns = median_of(collect(blocks, [](const BlockRecord& block) {
    return block.compile_ns ? std::optional(static_cast<double>(*block.compile_ns)) : std::nullopt;
  }));
}

void add_memory(const Blocks& blocks, ArmResult& row) {
  const auto median_in = [&](json BlockRecord::* part, std::string_view key) {
    return to_integer(median_of(
        collect(blocks, [&](const BlockRecord& block) { return number_at(block.*part, key); })));
  };
  const auto memory = [&](std::string_view key) { return median_in(&BlockRecord::memory, key); };
  const auto samples = [&](std::string_view key) { return median_in(&BlockRecord::samples, key); };
  row.peak_allocated_bytes = memory("peak_allocated_bytes");
  row.peak_reserved_bytes = memory("peak_reserved_bytes");
  row.graph_pool_hidden_bytes = memory("graph_pool_hidden_bytes");
  row.num_alloc_retries = memory("num_alloc_retries");
  row.unaccounted_bytes = memory("unaccounted_bytes");
  // A sampler sees the peak; without one there is the value at the block's end.
  row.driver_used_bytes = samples("max_memory_used_bytes");
  if (!row.driver_used_bytes) row.driver_used_bytes = memory("driver_used_bytes");
  row.peak_rss_bytes = memory("peak_rss_bytes");
  if (!row.peak_rss_bytes) row.peak_rss_bytes = samples("peak_rss_bytes");
}

void add_samples(const Blocks& blocks, ArmResult& row) {
  const auto samples = [&](std::string_view key) {
    return collect(blocks, [&](const BlockRecord& block) { return number_at(block.samples, key); });
  };
  row.mean_power_watts = mean_of(samples("mean_power_watts"));
  row.mean_sm_clock_mhz = mean_of(samples("mean_sm_clock_mhz"));
  const std::vector<double> temperatures = samples("max_temperature_celsius");
  if (!temperatures.empty()) row.max_temperature_celsius = *std::ranges::max_element(temperatures);

  double energy_j = 0;
  std::int64_t num_tokens = 0;
  double cpu_ns = 0;
  double sampled_ns = 0;
  std::map<std::string, std::vector<double>> throttle_shares;
  for (const BlockRecord* block : blocks) {
    if (const auto energy = number_at(block->samples, "energy_j")) {
      energy_j += *energy;
      num_tokens += sum(block->steps.num_valid_tokens);
    }
    const auto cpu = number_at(block->samples, "cpu_time_ns");
    const auto sampled = number_at(block->samples, "duration_ns");
    if (cpu && sampled) {
      cpu_ns += *cpu;
      sampled_ns += *sampled;
    }
    if (!block->samples.is_object() || !block->samples.contains("throttle_shares")) continue;
    const json& shares = block->samples.at("throttle_shares");
    if (!shares.is_object()) continue;
    for (const auto& [name, share] : shares.items()) {
      if (share.is_number()) throttle_shares[name].push_back(share.get<double>());
    }
  }
  if (num_tokens > 0) row.energy_per_token_j = energy_j / static_cast<double>(num_tokens);
  if (sampled_ns > 0) row.cpu_time_ratio = cpu_ns / sampled_ns;
  for (const auto& [name, shares] : throttle_shares) row.throttle_shares[name] = mean(shares);
}

void add_mfu(const Manifest& manifest, const Arm& arm, ArmResult& row) {
  try {
    row.num_matmul_parameters = num_matmul_parameters(arm.config.shape);
  } catch (const ConfigError& error) {
    row.mfu_reason = error.what();
    return;
  }
  if (manifest.gpu_name.empty()) {
    row.mfu_reason = "no GPU, so no peak to compare with";
    return;
  }
  const std::optional<PeakFlops> peak = peak_bf16_flops_per_s(manifest.gpu_name);
  if (!peak) {
    row.mfu_reason = fmt::format("the peak of {} is not known", manifest.gpu_name);
    return;
  }
  if (arm.config.precision != Precision::kBf16 && arm.config.precision != Precision::kFp16) {
    row.mfu_reason =
        fmt::format("the bf16 peak does not apply to {}", name_of(arm.config.precision));
    return;
  }
  row.peak_flops_per_s = peak->flops_per_s;
  row.peak_source = peak->source;
  if (!row.positions_per_s) return;
  try {
    // Each rank has a GPU, and positions are those of all of them.
    const Mfu mfu = model_flops_utilization(
        arm.config.shape, arm.config.sequence_length,
        *row.positions_per_s / static_cast<double>(arm.config.world_size), *peak);
    row.mfu_causal_ratio = mfu.mfu_causal_ratio;
    row.mfu_full_ratio = mfu.mfu_full_ratio;
  } catch (const ConfigError& error) {
    row.mfu_reason = error.what();
  }
}

// ---- One comparison. ----

// What is worked out about a comparison before the family is known.
struct Comparison {
  std::vector<BlockPair> pairs;
  std::vector<double> log_ratios;  // One a pair.
  std::vector<std::string> not_checked;
};

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
  row.loss_deviation_ratio = finite_or_absent(maths.loss_deviation_ratio);
  row.grad_norm_deviation_ratio = finite_or_absent(maths.grad_norm_deviation_ratio);
  if (maths.tolerance) {
    row.loss_tolerance_ratio = maths.tolerance->loss_ratio;
    row.grad_norm_tolerance_ratio = maths.tolerance->grad_norm_ratio;
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

std::optional<std::string> failure_of(const Manifest& manifest, const std::string& arm) {
  if (!manifest.failed_arms.is_object() || !manifest.failed_arms.contains(arm)) return std::nullopt;
  const json& reason = manifest.failed_arms.at(arm);
  return reason.is_string() ? reason.get<std::string>() : reason.dump();
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

// Everything about a comparison except what needs the whole family. Sets `verdict` where it is
// already decided.
Comparison compare_with_reference(const Bundle& bundle, const Arm& arm, const Results& results,
                                  ArmResult& row) {
  Comparison comparison{.pairs = block_pairs(bundle, arm)};
  for (const BlockPair& pair : comparison.pairs) {
    comparison.log_ratios.push_back(log_rate(*pair.candidate) - log_rate(*pair.reference));
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
  add_estimate(comparison, results.rule, row);
  if (row.proof == Proof::kNoEffect) {
    row.verdict = Verdict::kNoEffect;
    row.reason = proof.reason;
  } else if (row.num_rounds < results.rule.min_rounds && !row.verdict) {
    row.verdict = Verdict::kNotEnoughRounds;
    row.reason = fmt::format("{} rounds of at least {}", row.num_rounds, results.rule.min_rounds);
  }
  if (row.contract == Contract::kDifferentMaths) row.labels.emplace_back("different maths");
  return comparison;
}

// ---- The family of comparisons. ----

bool is_in_family(const ArmResult& row, const VerdictRule& rule) {
  return row.effect_ratio && row.num_rounds >= rule.min_rounds &&
         (!row.verdict || row.verdict == Verdict::kMathsDiffers);
}

std::vector<int> common_rounds(const std::vector<const Comparison*>& family) {
  std::vector<int> common;
  for (std::size_t i = 0; i < family.size(); ++i) {
    std::vector<int> rounds;
    for (const BlockPair& pair : family[i]->pairs) rounds.push_back(pair.round_index);
    if (i == 0) {
      common = rounds;
    } else {
      std::vector<int> both;
      std::ranges::set_intersection(common, rounds, std::back_inserter(both));
      common = both;
    }
  }
  return common;
}

std::vector<double> log_ratios_in(const Comparison& comparison, const std::vector<int>& rounds) {
  std::vector<double> log_ratios;
  for (std::size_t i = 0; i < comparison.pairs.size(); ++i) {
    if (std::ranges::binary_search(rounds, comparison.pairs[i].round_index)) {
      log_ratios.push_back(comparison.log_ratios[i]);
    }
  }
  return log_ratios;
}

// Step-down max-T flips whole rounds, so it needs rounds that all comparisons share. Where too few
// are left, Bonferroni holds the same error without them.
std::vector<double> adjust(const std::vector<const Comparison*>& family,
                           const std::vector<double>& p_values, std::uint64_t seed,
                           const VerdictRule& rule, std::vector<std::string>& warnings) {
  const std::vector<int> rounds = common_rounds(family);
  const auto num_arms = static_cast<double>(family.size());
  std::vector<double> p_adjusted;
  if (static_cast<int>(rounds.size()) < rule.min_rounds) {
    for (const double p : p_values) p_adjusted.push_back(std::min(1.0, p * num_arms));
    warnings.push_back(fmt::format(
        "Only {} rounds are shared by all comparisons: adjusted p values are Bonferroni's, which "
        "finds less.",
        rounds.size()));
    return p_adjusted;
  }
  std::vector<std::vector<double>> log_ratios_by_arm;
  std::size_t most_rounds = 0;
  for (const Comparison* comparison : family) {
    log_ratios_by_arm.push_back(log_ratios_in(*comparison, rounds));
    most_rounds = std::max(most_rounds, comparison->pairs.size());
  }
  if (rounds.size() < most_rounds) {
    warnings.push_back(fmt::format(
        "Adjusted p values use the {} rounds that all comparisons share; estimates use up to {}.",
        rounds.size(), most_rounds));
  }
  p_adjusted = step_down_max_t(log_ratios_by_arm, seed);
  for (std::size_t i = 0; i < p_adjusted.size(); ++i) {
    p_adjusted[i] = std::max(p_adjusted[i], p_values[i]);
  }
  return p_adjusted;
}

void decide_family(const Bundle& bundle, const std::vector<Comparison>& comparisons,
                   Results& results) {
  std::vector<const Comparison*> family;
  std::vector<ArmResult*> rows;
  std::vector<double> p_values;
  for (std::size_t i = 0; i < results.arms.size(); ++i) {
    if (!is_in_family(results.arms[i], results.rule)) continue;
    family.push_back(&comparisons[i]);
    rows.push_back(&results.arms[i]);
    p_values.push_back(sign_flip_p(comparisons[i].log_ratios, bundle.manifest.seed));
  }
  results.num_comparisons = static_cast<int>(family.size());
  if (family.empty()) return;
  const std::vector<double> p_adjusted =
      adjust(family, p_values, bundle.manifest.seed, results.rule, results.warnings);
  for (std::size_t i = 0; i < family.size(); ++i) {
    ArmResult& row = *rows[i];
    const Estimate estimate = estimate_log_ratio(family[i]->log_ratios, results.rule.confidence);
    row.p_value = p_values[i];
    row.p_adjusted = p_adjusted[i];
    if (const auto detectable = minimum_detectable_log_ratio(
            estimate.standard_deviation, estimate.num_rounds, results.num_comparisons)) {
      row.min_detectable_ratio = finite(std::exp(*detectable));
    }
    if (!row.verdict) row.verdict = decide(estimate, *row.p_adjusted, results.rule);
  }
}

AaResult summarize_aa(const Results& results) {
  AaResult aa;
  std::vector<double> half_widths;
  for (const ArmResult& row : results.arms) {
    if (!row.p_value) continue;
    ++aa.num_comparisons;
    if (*row.p_value <= kRawAlpha) ++aa.num_rejected;
    if (row.effect_low_ratio && row.effect_high_ratio) {
      half_widths.push_back(std::log(*row.effect_high_ratio / *row.effect_low_ratio) / 2);
    }
  }
  aa.median_half_width_ratio = median_of(half_widths);
  if (aa.num_comparisons > 0) {
    aa.num_allowed = max_aa_rejections(aa.num_comparisons);
    aa.is_accepted = aa.num_rejected <= aa.num_allowed;
  }
  return aa;
}

// ---- The matrix as a whole. ----

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
      results.measured_ns += static_cast<double>(sum(block->steps.step_wall_ns));
    }
  }
  if (blocks_ns > 0) results.measured_share_ratio = results.measured_ns / blocks_ns;
}

void add_drift(const Bundle& bundle, Results& results) {
  std::vector<std::vector<double>> log_rates_by_arm;
  const auto num_rounds = static_cast<std::size_t>(results.num_rounds_complete);
  std::vector<double> round_mean_log_times(num_rounds, 0.0);
  for (const Arm& arm : bundle.manifest.arms) {
    const Blocks blocks = usable_blocks(bundle, arm.name);
    if (blocks.size() != num_rounds) continue;  // Its gaps would look like jumps.
    std::vector<double>& log_rates = log_rates_by_arm.emplace_back();
    for (std::size_t r = 0; r < num_rounds; ++r) {
      log_rates.push_back(log_rate(*blocks[r]));
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

void warn_about_arm(const ArmResult& row, const Comparison& comparison,
                    std::vector<std::string>& warnings) {
  if (!row.is_single_variable && row.is_applicable && !row.is_external) {
    warnings.push_back(fmt::format(
        "{} does not differ from {} in exactly one variable, but in: {}.", row.name, row.reference,
        row.differing_keys.empty() ? "none"
                                   : fmt::format("{}", fmt::join(row.differing_keys, ", "))));
  }
  if (row.has_unequal_noise) {
    warnings.push_back(fmt::format(
        "{}: its blocks scatter more than 1.5 times as much as those of {}; the test is too "
        "generous there.",
        row.name, row.reference));
  }
  if (row.effect_per_cycle_ratio) {
    warnings.push_back(fmt::format(
        "{}: its mean SM clock differs from that of {} by more than 1 %, so part of the effect is "
        "the clock's; per cycle it is {}.",
        row.name, row.reference, format_change(*row.effect_per_cycle_ratio)));
  }
  for (const std::string& note : comparison.not_checked) {
    warnings.push_back(note + ", so equal work is taken on trust there.");
  }
}

void warn_about_clocks(const Bundle& bundle, std::vector<std::string>& warnings) {
  int num_blocks = 0;
  std::string first;
  for (const Arm& arm : bundle.manifest.arms) {
    for (const BlockRecord* block : usable_blocks(bundle, arm.name)) {
      const std::optional<std::string> gap = check_clocks(*block);
      if (gap && num_blocks++ == 0) first = *gap;
    }
  }
  if (num_blocks > 0) {
    warnings.push_back(fmt::format(
        "The clocks of {} blocks disagree, and their rates are wrong by as much; the first is {}.",
        num_blocks, first));
  }
}

void warn_about_warmup(const Bundle& bundle, std::vector<std::string>& warnings) {
  const auto says = [](const BlockRecord& block, std::string_view key, bool value) {
    if (!block.evidence.is_object()) return false;
    const auto it = block.evidence.find(key);
    return it != block.evidence.end() && it->is_boolean() && it->get<bool>() == value;
  };
  std::vector<std::string> unsettled;
  int num_disagreeing = 0;
  int num_blocks = 0;
  for (const Arm& arm : bundle.manifest.arms) {
    const BlockRecord* pilot = find_pilot(bundle, arm.name);
    if (pilot != nullptr && says(*pilot, "warmup_settled", false)) unsettled.push_back(arm.name);
    for (const BlockRecord* block : usable_blocks(bundle, arm.name)) {
      // In fewer steps nobody can tell; the pilots were long enough.
      if (block->warmup.size() + block->steps.size() < WarmupDetector::kNumSlopeSteps) continue;
      ++num_blocks;
      if (says(*block, "warmup_disagrees", true)) ++num_disagreeing;
    }
  }
  if (!unsettled.empty()) {
    warnings.push_back(fmt::format("No end of the warm-up was found in the pilots of: {}.",
                                   fmt::join(unsettled, ", ")));
  }
  if (num_disagreeing > 0) {
    warnings.push_back(
        fmt::format("In {} of {} blocks the step time had not settled by the end of the warm-up.",
                    num_disagreeing, num_blocks));
  }
}

void add_warnings(const Bundle& bundle, const std::vector<Comparison>& comparisons,
                  Results& results) {
  const Manifest& manifest = bundle.manifest;
  std::vector<std::string>& warnings = results.warnings;
  if (manifest.stop_reason.empty()) {
    warnings.push_back(fmt::format("The matrix is unfinished: {} of {} rounds are complete.",
                                   results.num_rounds_complete, results.num_rounds_planned));
  }
  if (manifest.is_dirty) {
    warnings.push_back(fmt::format("The program was built from sources that differ from git {}.",
                                   manifest.git_sha));
  }
  if (results.has_drift.value_or(false)) {
    warnings.emplace_back(
        "Drift: from one round to the next the machine changed by more than 1.5 times the noise of "
        "a block. Comparisons stay valid, but are less precise; split the matrix into smaller "
        "ones.");
  }
  for (const RoundRecord& round : manifest.rounds) {
    if (round.dropped_reason.empty()) continue;
    warnings.push_back(fmt::format("Round {} was dropped: {}.", round.index, round.dropped_reason));
  }
  const auto num_superseded = std::ranges::count(manifest.blocks, true, &BlockEntry::is_superseded);
  if (num_superseded > 0) {
    warnings.push_back(fmt::format(
        "{} blocks are stored but not used: they were run again, or their round was dropped.",
        num_superseded));
  }
  for (std::size_t i = 0; i < results.arms.size(); ++i) {
    if (!results.arms[i].reference.empty()) {
      warn_about_arm(results.arms[i], comparisons[i], warnings);
    }
  }
  warn_about_warmup(bundle, warnings);
  warn_about_clocks(bundle, warnings);
  append(warnings, manifest.notes);
}

VerdictRule rule_of(const Manifest& manifest) {
  VerdictRule rule = manifest.until_halfwidth_ratio ? kUntilHalfwidthRule : VerdictRule{};
  rule.equivalence_ratio = manifest.equivalence_ratio;
  return rule;
}

ArmResult describe_arm(const Bundle& bundle, const Arm& arm, const Results& results) {
  ArmResult row{.name = arm.name,
                .toggle = arm.toggle,
                .level = arm.level,
                .is_baseline = arm.is_baseline,
                .is_external = !arm.command.empty(),
                .reference = arm.reference,
                .contract = arm.contract,
                .is_applicable = arm.not_applicable_reason.empty(),
                .reason = arm.not_applicable_reason};
  const Blocks blocks = usable_blocks(bundle, arm.name);
  row.num_rounds = static_cast<int>(blocks.size());
  row.num_failed_blocks =
      static_cast<int>(std::ranges::count(results.failures, arm.name, &BlockFailure::arm));
  add_rates(blocks, row);
  add_memory(blocks, row);
  add_samples(blocks, row);
  add_mfu(bundle.manifest, arm, row);
  return row;
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
    ArmResult row = describe_arm(bundle, arm, results);
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
  add_warnings(bundle, comparisons, results);
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
