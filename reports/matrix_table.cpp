#include "reports/matrix_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/metrics.h"

namespace steplens {
namespace {

bool has_verdict(const ArmResult& arm, Verdict verdict) { return arm.verdict == verdict; }

std::string over_reference(const Results& results, const ArmResult& arm) {
  const ArmResult* reference = find_arm(results, arm.reference);
  return reference == nullptr || reference->is_baseline ? "the baseline" : arm.reference;
}

// Rate of `arm` / the baseline's along its references, each in the same rounds; absent where one of
// them has no effect.
std::optional<double> ratio_to_baseline(const Results& results, const ArmResult& arm) {
  double ratio = 1;
  const ArmResult* at = &arm;
  for (std::size_t i = 0; at != nullptr && i < results.arms.size(); ++i) {
    if (at->is_baseline) return ratio;
    if (!at->effect_ratio) return std::nullopt;
    ratio *= *at->effect_ratio;
    at = find_arm(results, at->reference);
  }
  return std::nullopt;
}

std::string labels_in_brackets(const ArmResult& arm) {
  return arm.labels.empty() ? "" : fmt::format(" ({})", fmt::join(arm.labels, ", "));
}

std::string aa_headline(const Results& results, const AaResult& aa) {
  if (aa.num_comparisons == 0) {
    return fmt::format("A/A without an answer: {} rounds are complete, at least {} are needed",
                       results.num_rounds_complete, results.rule.min_rounds);
  }
  return fmt::format(
      "A/A {}: {} of {} comparisons of the baseline with itself at p <= 0.05, at most "
      "{} allowed; median half-width {}",
      aa.is_accepted ? "passed" : "FAILED", aa.num_rejected, aa.num_comparisons, aa.num_allowed,
      aa.median_half_width_ratio ? format_percent(*aa.median_half_width_ratio)
                                 : std::string(kNoNumber));
}

std::string counts_of_verdicts(const Results& results) {
  struct Words {
    Verdict verdict;
    std::string_view text;
  };
  constexpr std::array<Words, 7> kWords = {{{Verdict::kSlower, "slower"},
                                            {Verdict::kEquivalent, "equivalent"},
                                            {Verdict::kInconclusive, "inconclusive"},
                                            {Verdict::kNotEnoughRounds, "with too few rounds"},
                                            {Verdict::kNoEffect, "without effect on what ran"},
                                            {Verdict::kMathsDiffers, "with other maths"},
                                            {Verdict::kFailed, "failed"}}};
  std::vector<std::string> parts;
  for (const Words& words : kWords) {
    const auto count = std::ranges::count_if(
        results.arms, [&](const ArmResult& arm) { return has_verdict(arm, words.verdict); });
    if (count > 0) parts.push_back(fmt::format("{} {}", count, words.text));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<double> memory_of(const ArmResult& arm, bool is_rss) {
  const std::optional<std::int64_t>& bytes = is_rss ? arm.peak_rss_bytes : arm.peak_allocated_bytes;
  return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
}

}  // namespace

std::string verdict_text(const ArmResult& arm, const VerdictRule& rule) {
  if (!arm.verdict && !arm.is_applicable) return "not applicable";
  if (!arm.verdict) {
    return arm.contract == Contract::kForwardOnly ? "forward only" : std::string(kNoNumber);
  }
  std::string text = verdict_words(*arm.verdict);
  const bool is_proven = has_verdict(arm, Verdict::kFaster) || has_verdict(arm, Verdict::kSlower);
  if (is_proven && arm.is_within_one_percent) {
    text += fmt::format(", within {:.3g} %", 100 * (rule.equivalence_ratio - 1));
  }
  return text;
}

std::optional<std::int64_t> peak_bytes_of(const ArmResult& arm) {
  return arm.peak_allocated_bytes ? arm.peak_allocated_bytes : arm.peak_rss_bytes;
}

std::string effect_text(const ArmResult& arm) {
  if (!arm.effect_ratio) return std::string(kNoNumber);
  return format_effect(*arm.effect_ratio, arm.effect_low_ratio, arm.effect_high_ratio);
}

std::string headline(const Results& results) {
  if (results.aa) return aa_headline(results, *results.aa);
  if (results.num_rounds_complete == 0) {
    return fmt::format("Nothing is measured: no round is complete{}",
                       results.stop_reason.empty() ? "" : "; " + results.stop_reason);
  }
  const ArmResult* fastest = nullptr;
  for (const ArmResult& arm : results.arms) {
    if (!has_verdict(arm, Verdict::kFaster)) continue;
    if (fastest == nullptr || arm.valid_tokens_per_s > fastest->valid_tokens_per_s) fastest = &arm;
  }
  if (fastest != nullptr) {
    std::string text = fmt::format("Fastest: {}, {} over {}", fastest->name, effect_text(*fastest),
                                   over_reference(results, *fastest));
    const ArmResult* reference = find_arm(results, fastest->reference);
    const std::optional<double> ratio = ratio_to_baseline(results, *fastest);
    if (reference != nullptr && !reference->is_baseline && ratio) {
      text += fmt::format(", {} over the baseline", format_change(*ratio));
    }
    return text + labels_in_brackets(*fastest);
  }
  const std::string counts = counts_of_verdicts(results);
  return counts.empty() ? "Nothing was compared with the baseline"
                        : "Nothing is proven to be faster than the baseline: " + counts;
}

std::vector<const ArmResult*> table_order(const Results& results) {
  const auto rank = [](const ArmResult& arm) {
    if (!arm.is_applicable) return 3;
    if (arm.reference.empty()) return 0;
    return arm.verdict == Verdict::kFailed ? 2 : 1;
  };
  std::vector<const ArmResult*> order;
  for (int wanted = 0; wanted <= 3; ++wanted) {
    for (const ArmResult& arm : results.arms) {
      if (rank(arm) == wanted) order.push_back(&arm);
    }
  }
  return order;
}

Table matrix_table(const Results& results) {
  const bool has_allocated = std::ranges::any_of(
      results.arms, [](const ArmResult& arm) { return arm.peak_allocated_bytes.has_value(); });
  Column effect = metric_column("effect_ratio",
                                fmt::format("effect [{:.0f} %]", 100 * results.rule.confidence));
  effect.align = Align::kLeft;  // Its digits do not line up.
  Table table{.columns = {{"arm"},
                          metric_column("valid_tokens_per_s"),
                          metric_column("step_wall_ns"),
                          effect,
                          metric_column(results.aa ? "p_value" : "p_adjusted"),
                          {"verdict"},
                          has_allocated ? metric_column("peak_allocated_bytes", "peak memory")
                                        : metric_column("peak_rss_bytes"),
                          metric_column("mfu_causal_ratio")}};
  for (const ArmResult* arm : table_order(results)) {
    table.rows.push_back({arm->name, format_or_absent(arm->valid_tokens_per_s, format_rate),
                          format_or_absent(arm->step_wall_ns, format_duration_ns),
                          effect_text(*arm),
                          format_or_absent(results.aa ? arm->p_value : arm->p_adjusted, format_p),
                          verdict_text(*arm, results.rule),
                          format_or_absent(memory_of(*arm, !has_allocated), format_bytes),
                          format_or_absent(arm->mfu_causal_ratio, format_percent)});
  }
  drop_absent_columns(table);
  return table;
}

std::vector<std::string> matrix_notes(const Results& results) {
  std::vector<std::string> notes;
  for (const ArmResult* arm : table_order(results)) {
    if (!arm->is_applicable) {
      notes.push_back(fmt::format("{} is not applicable: {}", arm->name, arm->reason));
      continue;
    }
    if (!arm->reason.empty()) {
      notes.push_back(fmt::format("{}: {}: {}", arm->name,
                                  arm->verdict ? verdict_text(*arm, results.rule) : "FAILED",
                                  arm->reason));
    }
    const ArmResult* reference = find_arm(results, arm->reference);
    if (reference != nullptr && !reference->is_baseline) {
      notes.push_back(fmt::format("{} is compared with {}", arm->name, arm->reference));
    }
    if (!arm->labels.empty()) {
      notes.push_back(fmt::format("{}: {}", arm->name, fmt::join(arm->labels, ", ")));
    }
  }
  return notes;
}

std::string matrix_text(const Results& results, std::size_t max_width) {
  std::string text = wrap(headline(results), 0, max_width) + "\n\n";
  text += to_text(matrix_table(results), max_width);
  const std::vector<std::string> notes = matrix_notes(results);
  if (!notes.empty()) text += "\n";
  for (const std::string& note : notes) text += wrap(note, 2, max_width) + "\n";
  return text;
}

}  // namespace steplens
