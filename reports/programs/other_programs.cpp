#include "reports/programs/other_programs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/metrics.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

bool can_be_compared(const ArmResult& arm) {
  if (arm.contract != Contract::kSameMaths || !arm.valid_tokens_per_s) return false;
  return arm.verdict != Verdict::kFailed && arm.verdict != Verdict::kMathsDiffers &&
         arm.verdict != Verdict::kNoEffect;
}

const ArmResult* fastest_own(const Results& results) {
  const ArmResult* fastest = nullptr;
  for (const ArmResult& arm : results.arms) {
    if (arm.is_external || !can_be_compared(arm)) continue;
    if (fastest == nullptr ||
        arm.valid_tokens_per_s.value_or(0) > fastest->valid_tokens_per_s.value_or(0)) {
      fastest = &arm;
    }
  }
  return fastest;
}

std::string times_text(const ProgramRatio& row) {
  return fmt::format("{} [{}, {}]", format_significant(row.ratio),
                     format_significant(row.low_ratio), format_significant(row.high_ratio));
}

}  // namespace

OtherPrograms compare_programs(const Bundle& bundle, const Results& results) {
  const ArmResult* own = fastest_own(results);
  if (own == nullptr) return {};
  OtherPrograms programs{.own_arm = own->name};
  const LogRates own_rates = log_rates(bundle, own->name);
  const std::int64_t own_peak_bytes = own->peak_allocated_bytes.value_or(0);
  for (const ArmResult& other : results.arms) {
    if (!other.is_external || !can_be_compared(other)) continue;
    std::vector<double> log_ratios;
    for (const auto& [round, rate] : log_rates(bundle, other.name)) {
      const auto it = own_rates.find(round);
      if (it != own_rates.end()) log_ratios.push_back(it->second - rate);
    }
    if (log_ratios.size() < 2) continue;
    const Estimate estimate = estimate_log_ratio(log_ratios, results.rule.confidence);
    ProgramRatio row{.program = other.name,
                     .num_rounds = estimate.num_rounds,
                     .ratio = std::exp(estimate.mean_log_ratio),
                     .low_ratio = std::exp(estimate.low_log_ratio),
                     .high_ratio = std::exp(estimate.high_log_ratio)};
    const std::int64_t peak_bytes = other.peak_allocated_bytes.value_or(0);
    if (own_peak_bytes > 0 && peak_bytes > 0) {
      row.memory_ratio = static_cast<double>(own_peak_bytes) / static_cast<double>(peak_bytes);
    }
    programs.ratios.push_back(std::move(row));
  }
  return programs;
}

Table programs_table(const OtherPrograms& programs, const Results& results) {
  const std::string times = programs.own_arm + " / it, ";
  Table table{.columns = {{"other program"},
                          metric_column("valid_tokens_per_s"),
                          {times + "tokens/s [95 %]", Align::kRight},
                          {times + "peak memory", Align::kRight},
                          {"rounds", Align::kRight}}};
  for (const ProgramRatio& row : programs.ratios) {
    const ArmResult* arm = find_arm(results, row.program);
    table.rows.push_back(
        {row.program, format_or_absent(arm->valid_tokens_per_s, format_rate), times_text(row),
         format_or_absent(row.memory_ratio,
                          [](double ratio) { return format_significant(ratio, 3); }),
         format_count(row.num_rounds)});
  }
  return table;
}

std::string programs_sentence(const OtherPrograms& programs) {
  if (programs.ratios.empty()) return "";
  const ProgramRatio& fastest =
      *std::ranges::min_element(programs.ratios, {}, &ProgramRatio::ratio);
  std::string text =
      fmt::format("{} does {} times [{}, {}] the tokens of {}", programs.own_arm,
                  format_significant(fastest.ratio), format_significant(fastest.low_ratio),
                  format_significant(fastest.high_ratio), fastest.program);
  if (programs.ratios.size() > 1) text += ", the fastest of the other programs";
  if (fastest.memory_ratio) {
    text += fmt::format(", with {} times its memory at the peak",
                        format_significant(*fastest.memory_ratio, 3));
  }
  return text + ".";
}

}  // namespace steplens
