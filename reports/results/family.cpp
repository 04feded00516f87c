#include "reports/results/family.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "harness/statistics.h"
#include "reports/results/averages.h"

namespace steplens {
namespace {

constexpr double kRawAlpha = 0.05;

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

}  // namespace

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

}  // namespace steplens
