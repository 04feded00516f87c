#include "reports/guards.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/clock_gap.h"
#include "reports/format.h"

namespace steplens {
namespace {

using nlohmann::json;

// fp32 learning rates inside a captured graph round at 6e-8; a rate of another step differs by
// more.
constexpr double kSameLearningRate = 1e-6;

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

// ---- One variable. ----

// Readings that change from one block to the next without anybody's doing.
bool is_reading(std::string_view key) {
  constexpr std::array<std::string_view, 9> kSuffixes = {
      "_celsius", "_mhz", "_watts", "_ns", "_s", "_bytes", "_ratio", "_utc", "load_average"};
  return key == "pid" || std::ranges::any_of(kSuffixes, [&](std::string_view suffix) {
           return key.ends_with(suffix);
         });
}

void flatten(const json& object, const std::string& prefix, std::map<std::string, json>& leaves) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    if (value.is_object()) {
      flatten(value, path, leaves);
    } else if ((value.is_string() || value.is_boolean() || value.is_number_integer()) &&
               !is_reading(key)) {
      leaves.emplace(path, value);
    }
  }
}

std::map<std::string, json> settings_of(const BlockRecord& block) {
  std::map<std::string, json> leaves;
  if (block.environment.is_object()) flatten(block.environment, "", leaves);
  return leaves;
}

// The allocator's setting is an environment variable, so its toggle shows in both places.
bool follows_from(const std::string& path, const std::vector<std::string>& config_keys) {
  std::string lower = path;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(config_keys, [&](const std::string& key) {
    return lower.find(key) != std::string::npos ||
           (key == "allocator" && lower.find("alloc") != std::string::npos);
  });
}

void check_environments(const Arm& arm, const BlockPair& pair,
                        const std::vector<std::string>& config_keys,
                        std::set<std::string>& differing, std::vector<std::string>& failures) {
  const std::map<std::string, json> candidate = settings_of(*pair.candidate);
  const std::map<std::string, json> reference = settings_of(*pair.reference);
  for (const auto& [path, value] : candidate) {
    const auto it = reference.find(path);
    if (it == reference.end() || it->second == value || follows_from(path, config_keys)) continue;
    if (!differing.insert("environment." + path).second) continue;
    failures.push_back(fmt::format("{}, round {}: environment {} is {} against {} of {}", arm.name,
                                   pair.round_index, path, value.dump(), it->second.dump(),
                                   arm.reference));
  }
}

void check_block_config(const Arm& planned, const BlockRecord& block, int round_index,
                        std::set<std::string>& differing, std::vector<std::string>& failures) {
  for (const std::string& key : differing_fields(planned.config, block.config)) {
    if (!differing.insert(key).second) continue;
    const ConfigField* field = find_config_field(key);
    failures.push_back(fmt::format("{}, round {}: the block ran with {}={}, planned was {}",
                                   planned.name, round_index, key, field->get(block.config).dump(),
                                   field->get(planned.config).dump()));
  }
}

// ---- Equal work. ----

// Failures of one arm: a field that fails in many rounds is one sentence about the first of them.
class FirstFailures {
 public:
  void add(const std::string& field, std::string sentence) {
    Entry& entry = entries_[field];
    if (entry.num_rounds++ == 0) {
      entry.sentence = std::move(sentence);
      order_.push_back(field);
    }
  }

  std::vector<std::string> sentences() const {
    std::vector<std::string> all;
    for (const std::string& field : order_) {
      const Entry& entry = entries_.at(field);
      all.push_back(entry.num_rounds == 1 ? entry.sentence
                                          : fmt::format("{} (and in {} more rounds)",
                                                        entry.sentence, entry.num_rounds - 1));
    }
    return all;
  }

 private:
  struct Entry {
    std::string sentence;
    int num_rounds = 0;
  };
  std::map<std::string, Entry> entries_;
  std::vector<std::string> order_;
};

struct WorkField {
  std::string_view name;
  std::int64_t (*get)(const BlockRecord&);
};

// Rows, not steps: with the micro-batch held an arm takes the same rows in fewer, larger steps.
std::int64_t num_rows(const BlockRecord& block, const StepArrays& steps) {
  return static_cast<std::int64_t>(steps.size()) * effective_global_batch_size(block.config);
}

constexpr WorkField kNumValidTokens = {
    "num_valid_tokens", [](const BlockRecord& block) { return sum(block.steps.num_valid_tokens); }};

constexpr std::array<WorkField, 5> kSameTokensInOrder = {{
    {"warm-up optimizer steps",
     [](const BlockRecord& block) { return static_cast<std::int64_t>(block.warmup.size()); }},
    {"measured optimizer steps",
     [](const BlockRecord& block) { return static_cast<std::int64_t>(block.steps.size()); }},
    {"num_positions", [](const BlockRecord& block) { return sum(block.steps.num_positions); }},
    kNumValidTokens,
    {"num_loss_tokens", [](const BlockRecord& block) { return sum(block.steps.num_loss_tokens); }},
}};

constexpr std::array<WorkField, 3> kSameTokensInAnyOrder = {{
    {"warm-up steps x global batch",
     [](const BlockRecord& block) { return num_rows(block, block.warmup); }},
    {"measured steps x global batch",
     [](const BlockRecord& block) { return num_rows(block, block.steps); }},
    kNumValidTokens,
}};

struct HashField {
  std::string_view name;
  std::string BlockRecord::* member;
};

void check_hash(const Arm& arm, const BlockPair& pair, const HashField& field,
                FirstFailures& failures, std::set<std::string>& not_checked) {
  const std::string& candidate = pair.candidate->*field.member;
  const std::string& reference = pair.reference->*field.member;
  if (candidate.empty() && !arm.command.empty()) {
    not_checked.insert(fmt::format("{}: its program states no {}", arm.name, field.name));
    return;
  }
  if (candidate.empty() || reference.empty() || candidate != reference) {
    failures.add(std::string(field.name),
                 fmt::format("{}, round {}: {} is \"{}\" against \"{}\" of {}", arm.name,
                             pair.round_index, field.name, candidate, reference, arm.reference));
  }
}

// ---- Equal maths. ----

std::vector<double> trajectory(const BlockRecord& block, std::vector<double> StepArrays::* member) {
  std::vector<double> values = block.warmup.*member;
  const std::vector<double>& measured = block.steps.*member;
  values.insert(values.end(), measured.begin(), measured.end());
  return values;
}

struct Deviation {
  double mean_ratio = 0;  // Infinite if a value is not finite.
  std::size_t num_steps = 0;
  std::size_t num_skipped = 0;  // Left out: the loss scaler skipped the update on either side.
  std::size_t worst_step_index = 0;
  double worst_candidate = 0;
  double worst_reference = 0;
};

// An overflow of scaled fp16 gradients: the norm is not finite, the loss is, and no update is made.
std::vector<bool> skipped_updates(const BlockRecord& block) {
  const std::vector<double> losses = trajectory(block, &StepArrays::loss);
  const std::vector<double> norms = trajectory(block, &StepArrays::grad_norm);
  std::vector<bool> is_skipped(norms.size(), false);
  if (block.config.precision != Precision::kFp16) return is_skipped;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    is_skipped[i] = std::isfinite(losses[i]) && !std::isfinite(norms[i]);
  }
  return is_skipped;
}

Deviation deviation_of(const BlockPair& pair, std::vector<double> StepArrays::* member,
                       std::size_t max_steps) {
  const std::vector<double> candidate = trajectory(*pair.candidate, member);
  const std::vector<double> reference = trajectory(*pair.reference, member);
  Deviation result;
  result.num_steps = std::min({candidate.size(), reference.size(), max_steps});
  const std::vector<bool> is_candidate_skipped = skipped_updates(*pair.candidate);
  const std::vector<bool> is_reference_skipped = skipped_updates(*pair.reference);
  double total = 0;
  double worst = -1;
  for (std::size_t i = 0; i < result.num_steps; ++i) {
    if (result.num_skipped < kMaxSkippedUpdates &&
        (is_candidate_skipped[i] || is_reference_skipped[i])) {
      ++result.num_skipped;
      continue;
    }
    const bool is_finite = std::isfinite(candidate[i]) && std::isfinite(reference[i]);
    double deviation = std::numeric_limits<double>::infinity();
    if (is_finite && candidate[i] == reference[i]) {
      deviation = 0;
    } else if (is_finite && reference[i] != 0) {
      deviation = std::abs(candidate[i] / reference[i] - 1);
    }
    total += deviation;
    if (deviation > worst) {
      worst = deviation;
      result.worst_step_index = i;
      result.worst_candidate = candidate[i];
      result.worst_reference = reference[i];
    }
  }
  const std::size_t num_compared = result.num_steps - result.num_skipped;
  if (num_compared > 0) result.mean_ratio = total / static_cast<double>(num_compared);
  return result;
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.7g}", value) : "not finite";
}

// Any finite deviation is within.
constexpr MathsTolerance kNoLimit = {.loss_ratio = std::numeric_limits<double>::max(),
                                     .grad_norm_ratio = std::numeric_limits<double>::max()};

std::string allowed(double tolerance_ratio) {
  return tolerance_ratio < kNoLimit.loss_ratio ? format_deviation(tolerance_ratio)
                                               : "any that is finite";
}

void check_trajectory(const Arm& arm, const BlockPair& pair, std::string_view name,
                      std::vector<double> StepArrays::* member, double tolerance_ratio,
                      std::optional<double>& largest, FirstFailures& failures,
                      std::size_t max_steps = kNumTrajectorySteps) {
  const Deviation deviation = deviation_of(pair, member, max_steps);
  largest = std::max(largest.value_or(0), deviation.mean_ratio);
  // Negated, so that NaN is outside too.
  if (deviation.mean_ratio <= tolerance_ratio) return;
  failures.add(std::string(name),
               fmt::format("{}, round {}: {} leaves that of {}: mean |ratio - 1| over the first {} "
                           "steps is {}, allowed {} (most at step {}: {} against {})",
                           arm.name, pair.round_index, name, arm.reference, deviation.num_steps,
                           format_deviation(deviation.mean_ratio), allowed(tolerance_ratio),
                           deviation.worst_step_index, number(deviation.worst_candidate),
                           number(deviation.worst_reference)));
}

void check_learning_rate(const Arm& arm, const BlockPair& pair, FirstFailures& failures) {
  const std::vector<double> candidate = trajectory(*pair.candidate, &StepArrays::lr);
  const std::vector<double> reference = trajectory(*pair.reference, &StepArrays::lr);
  const std::size_t num_steps = std::min(candidate.size(), reference.size());
  for (std::size_t i = 0; i < num_steps; ++i) {
    if (std::abs(candidate[i] - reference[i]) <= kSameLearningRate * std::abs(reference[i]))
      continue;
    failures.add("lr", fmt::format("{}, round {}, step {}: lr is {} against {} of {}", arm.name,
                                   pair.round_index, i, number(candidate[i]), number(reference[i]),
                                   arm.reference));
    return;
  }
}

void check_parameters_change(const Arm& arm, const BlockPair& pair, FirstFailures& failures,
                             std::set<std::string>& not_checked) {
  const BlockRecord& block = *pair.candidate;
  if (block.final_weights_hash.empty()) {
    if (arm.command.empty()) {
      failures.add(
          "final_weights_hash",
          fmt::format("{}, round {}: final_weights_hash is \"\" against weights_hash \"{}\": "
                      "the block does not show that training changed a parameter",
                      arm.name, pair.round_index, block.weights_hash));
    } else {
      not_checked.insert(fmt::format("{}: its program states no final_weights_hash", arm.name));
    }
  } else if (block.final_weights_hash == block.weights_hash) {
    failures.add(
        "final_weights_hash",
        fmt::format("{}, round {}: final_weights_hash \"{}\" equals weights_hash \"{}\": "
                    "training changed no parameter",
                    arm.name, pair.round_index, block.final_weights_hash, block.weights_hash));
  }
}

// Gradients that are rounded on their way count too.
bool is_low_precision(const RunConfig& config) {
  return config.precision != Precision::kFp32 || config.comm_dtype != CommDtype::kFp32;
}

}  // namespace

VariableCheck check_variables(const Bundle& bundle, const Arm& arm,
                              std::span<const BlockPair> pairs) {
  VariableCheck result;
  const Arm* reference = find_arm(bundle.manifest, arm.reference);
  if (reference == nullptr) return result;

  const std::vector<std::string> config_keys = differing_fields(arm.config, reference->config);
  const bool is_external = !arm.command.empty() || !reference->command.empty();
  // An A/A compares a program with itself, whatever the program.
  const bool is_another_program = arm.command != reference->command;
  std::set<std::string> hidden;
  const std::size_t num_expected = bundle.manifest.num_aa > 0 ? 0 : 1;
  // An arm that was asked for with several keys set says so itself; that is no failure.
  if (config_keys.size() != num_expected && !is_another_program && arm.is_single_variable) {
    result.failures.push_back(fmt::format(
        "{}: {} config keys differ from {}, allowed is {}: {}", arm.name, config_keys.size(),
        arm.reference, num_expected,
        config_keys.empty() ? "none differs" : fmt::format("{}", fmt::join(config_keys, ", "))));
  }
  for (const BlockPair& pair : pairs) {
    if (!is_external) {
      check_block_config(arm, *pair.candidate, pair.round_index, hidden, result.failures);
      check_block_config(*reference, *pair.reference, pair.round_index, hidden, result.failures);
    }
    if (!is_another_program) {
      check_environments(arm, pair, config_keys, hidden, result.failures);
    }
  }
  result.differing_keys = config_keys;
  if (is_another_program) result.differing_keys.emplace_back("program");
  for (const std::string& key : hidden) {
    if (std::ranges::find(result.differing_keys, key) == result.differing_keys.end()) {
      result.differing_keys.push_back(key);
    }
  }
  result.is_single_variable =
      arm.is_single_variable && !is_another_program && result.failures.empty();
  return result;
}

std::optional<std::string> check_clocks(const BlockRecord& block) {
  const std::optional<std::string> gap = clock_gap(block);
  if (!gap) return std::nullopt;
  return fmt::format("{}, round {}: {}", block.arm, block.round_index, *gap);
}

WorkCheck check_work(const Arm& arm, std::span<const BlockPair> pairs) {
  FirstFailures failures;
  std::set<std::string> not_checked;
  const bool is_free_of_order = arm.contract == Contract::kSameTokens;
  const std::span<const WorkField> fields =
      is_free_of_order ? std::span<const WorkField>(kSameTokensInAnyOrder) : kSameTokensInOrder;
  for (const BlockPair& pair : pairs) {
    for (const WorkField& field : fields) {
      const std::int64_t candidate = field.get(*pair.candidate);
      const std::int64_t reference = field.get(*pair.reference);
      if (candidate == reference) continue;
      failures.add(std::string(field.name),
                   fmt::format("{}, round {}: {} is {} against {} of {}", arm.name,
                               pair.round_index, field.name, candidate, reference, arm.reference));
    }
    check_hash(arm, pair,
               is_free_of_order ? HashField{"data_set_hash", &BlockRecord::data_set_hash}
                                : HashField{"data_hash", &BlockRecord::data_hash},
               failures, not_checked);
    check_hash(arm, pair, {"weights_hash", &BlockRecord::weights_hash}, failures, not_checked);
  }
  return {.failures = failures.sentences(),
          .not_checked = {not_checked.begin(), not_checked.end()}};
}

MathsTolerance maths_tolerance(const RunConfig& candidate, const RunConfig& reference) {
  if (is_low_precision(candidate) || is_low_precision(reference)) {
    return {.loss_ratio = 2e-3, .grad_norm_ratio = 2e-2};
  }
  return {.loss_ratio = 1e-5, .grad_norm_ratio = 1e-4};
}

MathsCheck check_maths(const Arm& arm, const Arm& reference, std::span<const BlockPair> pairs) {
  MathsCheck result;
  FirstFailures failures;
  std::set<std::string> not_checked;
  const bool is_forward_only = arm.contract == Contract::kForwardOnly;
  const bool has_limit = arm.contract == Contract::kSameMaths || is_forward_only;
  if (has_limit) result.tolerance = maths_tolerance(arm.config, reference.config);
  const MathsTolerance tolerance = result.tolerance.value_or(kNoLimit);
  for (const BlockPair& pair : pairs) {
    if (is_forward_only) {
      check_trajectory(arm, pair, "loss", &StepArrays::loss, tolerance.loss_ratio,
                       result.loss_deviation_ratio, failures, 1);
      continue;
    }
    if (has_limit || arm.contract == Contract::kLowerPrecision) {
      check_trajectory(arm, pair, "loss", &StepArrays::loss, tolerance.loss_ratio,
                       result.loss_deviation_ratio, failures);
      check_trajectory(arm, pair, "grad_norm", &StepArrays::grad_norm, tolerance.grad_norm_ratio,
                       result.grad_norm_deviation_ratio, failures);
    }
    check_learning_rate(arm, pair, failures);
    check_parameters_change(arm, pair, failures, not_checked);
  }
  result.failures = failures.sentences();
  result.not_checked = {not_checked.begin(), not_checked.end()};
  return result;
}

}  // namespace steplens
