#include "harness/cli/plan_text.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "harness/cli/text_table.h"

namespace steplens {
namespace {

using nlohmann::json;

std::string word(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const Arm* reference_of(const Plan& plan, const Arm& arm) {
  const auto it = std::ranges::find(plan.arms, arm.reference, &Arm::name);
  return it == plan.arms.end() ? nullptr : &*it;
}

// "attention: flash -> math" against the arm's reference.
std::string difference_text(const Plan& plan, const Arm& arm) {
  const Arm* reference = reference_of(plan, arm);
  if (reference == nullptr) return "";
  if (!arm.command.empty()) return fmt::format("another program: {}", arm.command.front());
  std::string text;
  for (const std::string& field : differing_fields(reference->config, arm.config)) {
    const ConfigField* key = find_config_field(field);
    text += fmt::format("{}{}: {} -> {}", text.empty() ? "" : ", ", field,
                        word(key->get(reference->config)), word(key->get(arm.config)));
  }
  return text.empty() ? "nothing: the same config" : text;
}

// The baseline's toggles at a glance, in the order of the config.
std::string baseline_text(const RunConfig& config) {
  std::string text;
  for (const ConfigField& field : config_fields()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", field.name, word(field.get(config)));
  }
  return text;
}

// Breaks at spaces, so that no line is longer than a terminal.
std::string wrapped(std::string_view text, std::string_view indent) {
  constexpr std::size_t kWidth = 100;
  std::string result;
  std::string line(indent);
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const std::string_view next = text.substr(0, end);
    if (line.size() + next.size() + 1 > kWidth && line.size() > indent.size()) {
      result += line + "\n";
      line = indent;
    }
    line += line.size() > indent.size() ? " " : "";
    line += next;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result + line + "\n";
}

}  // namespace

Printout describe_plan(const Plan& plan, const BlockDurations& durations,
                       std::string_view durations_source) {
  const Manifest manifest{.baseline = plan.baseline, .arms = plan.arms};
  std::vector<std::string> running;
  std::vector<std::vector<std::string>> arm_rows;
  std::vector<std::vector<std::string>> reason_rows;
  json arms = json::array();
  for (const Arm& arm : plan.arms) {
    const std::string difference = difference_text(plan, arm);
    arms.push_back({{"name", arm.name},
                    {"reference", arm.reference},
                    {"difference", difference},
                    {"batch", batch_arithmetic(arm.config)},
                    {"contract", name_of(arm.contract)},
                    {"not_applicable_reason", arm.not_applicable_reason}});
    if (!arm.not_applicable_reason.empty()) {
      reason_rows.push_back({arm.name, arm.not_applicable_reason});
      continue;
    }
    running.push_back(arm.name);
    arm_rows.push_back({arm.name, batch_arithmetic(arm.config),
                        arm.reference.empty() ? "" : fmt::format("against {}", arm.reference),
                        difference});
  }
  const auto num_pilots = static_cast<int>(plan.num_aa > 0 ? 1 : running.size());
  const auto num_per_round = static_cast<int>(running.size());
  const double round_s = durations.expected_s(manifest, running);
  const double expected_s = round_s * (plan.num_rounds + (plan.num_aa > 0 ? 0 : 1)) +
                            durations.expected_s(manifest, running.front());
  std::string text = fmt::format(
      "{} on {}: {} rounds x {} blocks, {} pilots, 1 soak block; about {} ({})\n\nbaseline\n",
      plan.baseline.model, name_of(plan.baseline.device), plan.num_rounds, num_per_round,
      num_pilots, duration_text(expected_s), durations_source);
  text += wrapped(baseline_text(plan.baseline), "  ");
  text += "\narms\n" + aligned(arm_rows, "  ");
  if (!reason_rows.empty()) text += "\nnot applicable\n" + aligned(reason_rows, "  ");
  return {.text = text,
          .json = {{"baseline", to_json(plan.baseline)},
                   {"arms", arms},
                   {"num_rounds", plan.num_rounds},
                   {"num_blocks_per_round", num_per_round},
                   {"num_pilots", num_pilots},
                   {"num_aa", plan.num_aa},
                   {"seed", plan.seed},
                   {"expected_s", expected_s},
                   {"expected_from", durations_source}}};
}

}  // namespace steplens
