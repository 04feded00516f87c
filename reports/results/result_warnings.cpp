#include "reports/results/result_warnings.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/guards.h"
#include "reports/pairs.h"
#include "reports/results/step_swing.h"

namespace steplens {
namespace {

// NO_EFFECT, and a difference far beyond what arms that ran the same can show; empty if it is not.
std::string contradiction(const ArmResult& row) {
  constexpr double kLargeRatio = 1.03;
  if (row.verdict != Verdict::kNoEffect || !row.effect_ratio || !row.effect_low_ratio ||
      !row.effect_high_ratio) {
    return "";
  }
  if (*row.effect_high_ratio >= 1 / kLargeRatio && *row.effect_low_ratio <= kLargeRatio) return "";
  return fmt::format(
      "{}: no effect is proven, yet its rate differs: {}. Either what is claimed cannot be counted "
      "there, or something else changed; traces of both arms (--trace-steps) show which.",
      row.name, format_effect(*row.effect_ratio, row.effect_low_ratio, row.effect_high_ratio));
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
  if (std::string text = contradiction(row); !text.empty()) warnings.push_back(std::move(text));
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

// At the power limit for more than half of the time.
bool is_power_limited(const ArmResult& row) {
  const auto it = row.throttle_shares.find("sw_power_cap");
  return it != row.throttle_shares.end() && it->second > 0.5;
}

void warn_about_swings(const Bundle& bundle, const Results& results,
                       std::vector<std::string>& warnings) {
  std::vector<std::string> arms;
  bool is_at_power_limit = false;
  for (const ArmResult& row : results.arms) {
    const std::optional<StepSwing> swing = find_step_swing(usable_blocks(bundle, row.name));
    if (!swing) continue;
    arms.push_back(fmt::format("{} (step {}: +{}; mean step: {}{})", row.name,
                               swing->step_index + 1, format_percent(swing->excess_ratio),
                               swing->mean_excess_ratio < 0 ? "" : "+",  // The minus is its own.
                               format_percent(swing->mean_excess_ratio)));
    is_at_power_limit = is_at_power_limit || is_power_limited(row);
  }
  if (arms.empty()) return;
  warnings.push_back(fmt::format(
      "The same measured step is longer than the block's median step in every round: {}. The "
      "device was not in a steady state{}. More warm-up steps (--warmup) let it settle; more "
      "measured steps (--steps) weigh it less.",
      fmt::join(arms, ", "),
      is_at_power_limit ? "; under a power limit clocks swing in the first seconds of load" : ""));
}

}  // namespace

std::vector<std::string> result_warnings(const Bundle& bundle,
                                         const std::vector<Comparison>& comparisons,
                                         const Results& results) {
  const Manifest& manifest = bundle.manifest;
  std::vector<std::string> warnings;
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
  warn_about_swings(bundle, results, warnings);
  warn_about_clocks(bundle, warnings);
  warnings.insert(warnings.end(), manifest.notes.begin(), manifest.notes.end());
  return warnings;
}

}  // namespace steplens
