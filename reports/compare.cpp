#include "reports/compare.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

using nlohmann::json;

struct Sample {
  double mean = 0;
  double squared_error = 0;  // Of the mean: variance / count.
  double degrees_of_freedom = 0;
};

std::vector<double> all_log_rates(const Bundle& bundle, std::string_view arm) {
  std::vector<double> values;
  for (const auto& [round_index, rate] : log_rates(bundle, arm)) values.push_back(rate);
  return values;
}

Sample sample_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double sd = values.size() > 1 ? sample_standard_deviation(values) : 0;
  return {.mean = std::accumulate(values.begin(), values.end(), 0.0) / count,
          .squared_error = sd * sd / count,
          .degrees_of_freedom = count - 1};
}

// Welch's interval: the two runs may scatter differently. Needs two blocks on each side.
void add_rates(const std::vector<double>& baseline, const std::vector<double>& candidate,
               double confidence, ArmComparison& arm) {
  if (baseline.empty() || candidate.empty()) return;
  const Sample a = sample_of(baseline);
  const Sample b = sample_of(candidate);
  const double difference = b.mean - a.mean;
  arm.rate_ratio = std::exp(difference);
  if (baseline.size() < 2 || candidate.size() < 2) return;
  const double squared_error = a.squared_error + b.squared_error;
  double half_width = 0;
  if (squared_error > 0) {
    const double degrees_of_freedom = squared_error * squared_error /
                                      (a.squared_error * a.squared_error / a.degrees_of_freedom +
                                       b.squared_error * b.squared_error / b.degrees_of_freedom);
    half_width =
        student_t_quantile((1 + confidence) / 2, degrees_of_freedom) * std::sqrt(squared_error);
  }
  arm.rate_low_ratio = std::exp(difference - half_width);
  arm.rate_high_ratio = std::exp(difference + half_width);
}

std::string words_of(std::optional<Verdict> verdict) {
  return verdict ? verdict_words(*verdict) : std::string(kNoNumber);
}

bool has_got_worse(std::optional<Verdict> baseline, std::optional<Verdict> candidate) {
  if (!candidate || candidate == baseline) return false;
  switch (*candidate) {
    case Verdict::kFailed:
    case Verdict::kMathsDiffers:
    case Verdict::kNoEffect:
    case Verdict::kSlower: return true;
    case Verdict::kEquivalent: return baseline == Verdict::kFaster;
    default: return false;
  }
}

void judge(const CompareOptions& options, ArmComparison& arm) {
  if (has_got_worse(arm.baseline_verdict, arm.candidate_verdict)) {
    arm.is_regression = true;
    arm.reason = fmt::format("verdict {} became {}", words_of(arm.baseline_verdict),
                             words_of(arm.candidate_verdict));
  }
  if (arm.rate_ratio && arm.rate_high_ratio && *arm.rate_high_ratio < 1 &&
      *arm.rate_ratio < 1 - options.threshold_ratio) {
    arm.is_regression = true;
    arm.reason +=
        fmt::format("{}rate changed by {}", arm.reason.empty() ? "" : "; ",
                    format_effect(*arm.rate_ratio, arm.rate_low_ratio, arm.rate_high_ratio));
  }
}

// The peak needs no interval: blocks of one arm hardly differ in it.
void judge_memory(const CompareOptions& options, ArmComparison& arm) {
  if (!options.memory_threshold_ratio || !arm.peak_ratio ||
      *arm.peak_ratio <= 1 + *options.memory_threshold_ratio) {
    return;
  }
  arm.is_regression = true;
  arm.reason += fmt::format("{}peak memory changed by {}", arm.reason.empty() ? "" : "; ",
                            format_change(*arm.peak_ratio));
}

// Text of a workflow command; in its properties colons and commas mean something too.
std::string github_text(std::string_view text, bool is_property) {
  std::string escaped;
  for (const char c : text) {
    const bool is_special =
        c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ','));
    if (is_special) {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string github_command(std::string_view level, std::string_view title,
                           std::string_view message) {
  return fmt::format("::{} title={}::{}\n", level, github_text(title, true),
                     github_text(message, false));
}

void note_difference(std::string_view what, const std::string& baseline,
                     const std::string& candidate, std::vector<std::string>& differences) {
  if (baseline == candidate) return;
  differences.push_back(fmt::format("{}: {} against {}", what, baseline.empty() ? "none" : baseline,
                                    candidate.empty() ? "none" : candidate));
}

void note_config_differences(std::string_view owner, const RunConfig& baseline,
                             const RunConfig& candidate, std::vector<std::string>& differences) {
  for (const std::string& key : differing_fields(baseline, candidate)) {
    const ConfigField* field = find_config_field(key);
    differences.push_back(fmt::format("{}{}: {} against {}", owner, key,
                                      field->get(baseline).dump(), field->get(candidate).dump()));
  }
}

std::string data_hash_of(const Manifest& manifest) {
  if (!manifest.data.is_object() || !manifest.data.contains("sha256")) return {};
  const json& hash = manifest.data.at("sha256");
  return hash.is_string() ? hash.get<std::string>() : hash.dump();
}

std::vector<std::string> differences_of(const Manifest& baseline, const Manifest& candidate) {
  std::vector<std::string> differences;
  note_difference("gpu_name", baseline.gpu_name, candidate.gpu_name, differences);
  note_difference("world_size", std::to_string(baseline.world_size),
                  std::to_string(candidate.world_size), differences);
  note_difference("data.sha256", data_hash_of(baseline), data_hash_of(candidate), differences);
  note_config_differences("", baseline.baseline, candidate.baseline, differences);
  note_difference("num_measured_steps", std::to_string(baseline.num_measured_steps),
                  std::to_string(candidate.num_measured_steps), differences);
  note_difference("git_sha", baseline.git_sha, candidate.git_sha, differences);
  return differences;
}

// Arms of one name that run different things, beyond what the baselines' difference explains.
void note_arm_difference(const Bundle& baseline, const Bundle& candidate, const std::string& name,
                         std::vector<std::string>& differences) {
  const Arm* a = find_arm(baseline.manifest, name);
  const Arm* b = find_arm(candidate.manifest, name);
  if (a == nullptr || b == nullptr) return;
  const std::vector<std::string> known =
      differing_fields(baseline.manifest.baseline, candidate.manifest.baseline);
  const std::vector<std::string> here = differing_fields(a->config, b->config);
  if (here == known) return;
  note_config_differences(name + ": ", a->config, b->config, differences);
}

ArmComparison compare_arm(const Bundle& baseline, const ArmResult& baseline_row,
                          const Bundle& candidate, const ArmResult& candidate_row,
                          const CompareOptions& options) {
  ArmComparison arm{.name = baseline_row.name,
                    .baseline_verdict = baseline_row.verdict,
                    .candidate_verdict = candidate_row.verdict};
  add_rates(all_log_rates(baseline, arm.name), all_log_rates(candidate, arm.name),
            options.confidence, arm);
  if (baseline_row.effect_ratio && candidate_row.effect_ratio) {
    arm.effect_ratio_ratio = *candidate_row.effect_ratio / *baseline_row.effect_ratio;
  }
  const std::int64_t baseline_peak_bytes = baseline_row.peak_allocated_bytes.value_or(0);
  if (baseline_peak_bytes > 0 && candidate_row.peak_allocated_bytes) {
    arm.peak_ratio = static_cast<double>(*candidate_row.peak_allocated_bytes) /
                     static_cast<double>(baseline_peak_bytes);
  }
  judge(options, arm);
  judge_memory(options, arm);
  if (!arm.rate_ratio && arm.reason.empty()) {
    arm.reason = candidate_row.is_applicable && baseline_row.is_applicable
                     ? "no usable blocks on one side"
                     : "not applicable on one side";
  }
  return arm;
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json verdict_json(std::optional<Verdict> verdict) {
  return verdict ? json(verdict_name(*verdict)) : json(nullptr);
}

}  // namespace

BundleComparison compare_bundles(const Bundle& baseline, const Bundle& candidate,
                                 const CompareOptions& options) {
  const Results baseline_results = compute_results(baseline);
  const Results candidate_results = compute_results(candidate);
  BundleComparison comparison{.differences = differences_of(baseline.manifest, candidate.manifest)};
  for (const ArmResult& row : baseline_results.arms) {
    const ArmResult* other = find_arm(candidate_results, row.name);
    if (other == nullptr) {
      comparison.arms.push_back({.name = row.name,
                                 .baseline_verdict = row.verdict,
                                 .reason = "only in the first bundle"});
      continue;
    }
    note_arm_difference(baseline, candidate, row.name, comparison.differences);
    comparison.arms.push_back(compare_arm(baseline, row, candidate, *other, options));
  }
  for (const ArmResult& row : candidate_results.arms) {
    if (find_arm(baseline_results, row.name) != nullptr) continue;
    comparison.arms.push_back({.name = row.name,
                               .candidate_verdict = row.verdict,
                               .reason = "only in the second bundle"});
  }
  comparison.has_regression = std::ranges::any_of(comparison.arms, &ArmComparison::is_regression);
  return comparison;
}

std::string github_annotations(const BundleComparison& comparison) {
  std::string text;
  for (const std::string& difference : comparison.differences) {
    text += github_command("warning", "Steplens: not the same experiment", difference);
  }
  for (const ArmComparison& arm : comparison.arms) {
    if (!arm.is_regression) continue;
    text += github_command("error", fmt::format("Steplens regression: {}", arm.name), arm.reason);
  }
  if (!comparison.has_regression) {
    text += github_command("notice", "Steplens", "No regression is proven.");
  }
  return text;
}

Table comparison_table(const BundleComparison& comparison) {
  Table table{.columns = {{"arm"},
                          {"rate, second / first"},
                          {"effect, second / first"},
                          {"peak memory, second / first"},
                          {"verdict, first"},
                          {"verdict, second"},
                          {""}}};
  for (const ArmComparison& arm : comparison.arms) {
    table.rows.push_back(
        {arm.name,
         arm.rate_ratio ? format_effect(*arm.rate_ratio, arm.rate_low_ratio, arm.rate_high_ratio)
                        : std::string(kNoNumber),
         format_or_absent(arm.effect_ratio_ratio, format_change),
         format_or_absent(arm.peak_ratio, format_change), words_of(arm.baseline_verdict),
         words_of(arm.candidate_verdict), arm.is_regression ? "REGRESSION" : ""});
  }
  drop_absent_columns(table);
  return table;
}

json to_json(const BundleComparison& comparison) {
  json arms = json::array();
  for (const ArmComparison& arm : comparison.arms) {
    arms.push_back({{"name", arm.name},
                    {"rate_ratio", or_null(arm.rate_ratio)},
                    {"rate_low_ratio", or_null(arm.rate_low_ratio)},
                    {"rate_high_ratio", or_null(arm.rate_high_ratio)},
                    {"peak_ratio", or_null(arm.peak_ratio)},
                    {"effect_ratio_ratio", or_null(arm.effect_ratio_ratio)},
                    {"baseline_verdict", verdict_json(arm.baseline_verdict)},
                    {"candidate_verdict", verdict_json(arm.candidate_verdict)},
                    {"is_regression", arm.is_regression},
                    {"reason", arm.reason}});
  }
  return {{"schema_version", kSchemaVersion},
          {"arms", arms},
          {"differences", comparison.differences},
          {"has_regression", comparison.has_regression}};
}

}  // namespace steplens
