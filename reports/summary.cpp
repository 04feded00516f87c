#include "reports/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/config_text.h"
#include "harness/run_config.h"
#include "reports/breakdown/breakdown_parts.h"
#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/memory/memory_parts.h"

namespace steplens {
namespace {

// A smaller change of the peak is rarely why a switch is chosen.
constexpr double kNotableMemoryRatio = 1.05;

// "is faster: +2.7 % [2.0, 3.5]": goes on behind the arm's name.
std::string finding_of(const ArmResult& arm, const Results& results) {
  if (!arm.is_applicable) return "cannot run here";
  if (!arm.verdict && arm.contract == Contract::kForwardOnly) {
    return "is the forward pass alone and trains nothing, so it has no effect";
  }
  if (!arm.verdict) return "is not judged";
  std::string effect = effect_text(arm);
  const ArmResult* reference = find_arm(results, arm.reference);
  if (reference != nullptr && !reference->is_baseline) effect += " over " + arm.reference;
  switch (*arm.verdict) {
    case Verdict::kFaster: return "is faster: " + effect;
    case Verdict::kSlower: return "is slower: " + effect;
    case Verdict::kEquivalent:
      return fmt::format("is equivalent within {:.3g} %: {}",
                         100 * (results.rule.equivalence_ratio - 1), effect);
    case Verdict::kInconclusive: return "is undecided by this run: " + effect;
    case Verdict::kNotEnoughRounds: return "has too few rounds to be judged: " + effect;
    case Verdict::kNoEffect: return "changed nothing that ran";
    case Verdict::kMathsDiffers: return "trains something else, so its speed is not judged";
    case Verdict::kFailed: return "failed";
  }
  return "is not judged";
}

// ", with 18.6 GiB less memory"
std::string memory_of(const ArmResult& arm, const Results& results) {
  const ArmResult* reference = find_arm(results, arm.reference);
  if (reference == nullptr || !arm.peak_allocated_bytes || !reference->peak_allocated_bytes) {
    return {};
  }
  const auto after = static_cast<double>(*arm.peak_allocated_bytes);
  const auto before = static_cast<double>(*reference->peak_allocated_bytes);
  if (before <= 0 || after <= 0) return {};
  if (std::abs(std::log(after / before)) < std::log(kNotableMemoryRatio)) return {};
  return fmt::format(", with {} {} memory at the peak", format_bytes(std::abs(after - before)),
                     after < before ? "less" : "more");
}

std::string sentence_of(const ArmResult& arm, const Results& results) {
  std::string text = finding_of(arm, results) + memory_of(arm, results);
  if (!arm.labels.empty()) text += fmt::format(" ({})", fmt::join(arm.labels, ", "));
  return text;
}

// The level that the baseline has; empty where it cannot be told.
std::string baseline_level(const Manifest& manifest, const ArmResult& arm) {
  const std::string& key = arm.differing_keys.size() == 1 ? arm.differing_keys.front() : arm.toggle;
  const ConfigField* field = find_config_field(key);
  if (field == nullptr) return {};
  return value_text(*field, manifest.baseline);
}

}  // namespace

std::vector<std::string> toggle_sentences(const Manifest& manifest, const Results& results) {
  if (results.aa) return {};
  std::vector<std::string> sentences;
  std::vector<std::string> told;
  for (const ArmResult& arm : results.arms) {
    if (arm.reference.empty() && arm.is_applicable) continue;
    const bool is_level = !arm.toggle.empty() && arm.name == arm.toggle + "=" + arm.level;
    if (!is_level) {
      sentences.push_back(fmt::format("{} {}.", arm.name, sentence_of(arm, results)));
      continue;
    }
    if (std::ranges::find(told, arm.toggle) != told.end()) continue;
    told.push_back(arm.toggle);
    std::vector<std::string> levels;
    for (const ArmResult& other : results.arms) {
      if (other.toggle != arm.toggle || other.name != other.toggle + "=" + other.level) continue;
      levels.push_back(fmt::format("{} {}", other.level, sentence_of(other, results)));
    }
    const std::string before = baseline_level(manifest, arm);
    sentences.push_back(fmt::format("{}{}: {}.", arm.toggle,
                                    before.empty() ? "" : fmt::format(" (baseline: {})", before),
                                    fmt::join(levels, "; ")));
  }
  return sentences;
}

std::vector<std::string> all_warnings(const ReportInput& input) {
  std::vector<std::string> warnings = input.results.warnings;
  for (const std::vector<std::string>& more :
       {breakdown_warnings(input.traced_arms), memory_warnings(input.memory_arms)}) {
    warnings.insert(warnings.end(), more.begin(), more.end());
  }
  return warnings;
}

std::string doubts_line(const ReportInput& input) {
  const Results& results = input.results;
  const auto counted = [](std::size_t count, std::string_view one) {
    return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
  };
  const auto num_labelled = static_cast<std::size_t>(std::ranges::count_if(
      results.arms, [](const ArmResult& arm) { return !arm.labels.empty(); }));
  return fmt::format("What could be wrong with this: {}, {}, {} with a label.",
                     counted(all_warnings(input).size(), "warning"),
                     counted(results.failures.size(), "failed block"),
                     counted(num_labelled, "arm"));
}

}  // namespace steplens
