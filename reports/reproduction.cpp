#include "reports/reproduction.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/provenance.h"

namespace steplens {
namespace {

using nlohmann::json;

struct Interval {
  double low_ratio = 0;
  double high_ratio = 0;
};

// Absent for an arm without an effect.
std::optional<Interval> interval_of(const ArmResult& arm) {
  if (!arm.effect_ratio || !arm.effect_low_ratio || !arm.effect_high_ratio) return std::nullopt;
  return Interval{.low_ratio = *arm.effect_low_ratio, .high_ratio = *arm.effect_high_ratio};
}

std::string why_no_effect(const ArmResult& arm, std::string_view where) {
  if (!arm.is_applicable) return fmt::format("not applicable {}: {}", where, arm.reason);
  if (!arm.reason.empty()) return fmt::format("no effect {}: {}", where, arm.reason);
  return fmt::format("no interval {}: it takes two complete rounds", where);
}

// A comparison of an arm that is compared with nothing: its rate is worth a row all the same.
bool is_compared(const ArmResult& arm) { return !arm.reference.empty(); }

ReproducedArm compare_arm(const ArmResult& original, const ArmResult* copy) {
  ReproducedArm arm{.name = original.name,
                    .original_ratio = original.effect_ratio,
                    .original_low_ratio = original.effect_low_ratio,
                    .original_high_ratio = original.effect_high_ratio,
                    .original_rate_per_s = original.valid_tokens_per_s,
                    .original_verdict = original.verdict};
  if (copy == nullptr) {
    arm.reason = "the copy does not have it";
    return arm;
  }
  arm.copy_ratio = copy->effect_ratio;
  arm.copy_low_ratio = copy->effect_low_ratio;
  arm.copy_high_ratio = copy->effect_high_ratio;
  arm.copy_rate_per_s = copy->valid_tokens_per_s;
  arm.copy_verdict = copy->verdict;
  if (!is_compared(original)) return arm;
  const std::optional<Interval> there = interval_of(original);
  const std::optional<Interval> here = interval_of(*copy);
  if (!there) {
    arm.reason = why_no_effect(original, "in the original");
  } else if (!here) {
    arm.reason = why_no_effect(*copy, "here");
  } else {
    const bool overlaps =
        there->low_ratio <= here->high_ratio && here->low_ratio <= there->high_ratio;
    arm.agreement = overlaps ? Agreement::kAgrees : Agreement::kDiffers;
  }
  return arm;
}

// What names one run or one device is expected to differ, and says nothing of effects.
bool is_identity(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"begun", "uuid", "pci_id_suffix",
                                                      "steplens_git_sha", "gpu_uuid"};
  return std::ranges::any_of(kNames, [&](std::string_view part) { return name.ends_with(part); });
}

std::vector<std::string> differences_of(const Bundle& original, const Bundle& copy) {
  std::vector<std::string> differences;
  const auto note = [&](std::string_view name, const std::string& there, const std::string& here) {
    if (there != here)
      differences.push_back(fmt::format("{}: {} there, {} here", name, there, here));
  };
  const auto there = provenance_of(original);
  const auto here = provenance_of(copy);
  const auto value_of = [](const auto& values, const std::string& name) {
    const auto it = std::ranges::find(values, name, &std::pair<std::string, std::string>::first);
    return it == values.end() ? std::string("nothing") : it->second;
  };
  for (const auto& [name, value] : there) {
    if (!is_identity(name)) note(name, value, value_of(here, name));
  }
  for (const auto& [name, value] : here) {
    if (!is_identity(name) && value_of(there, name) == "nothing") note(name, "nothing", value);
  }
  note("rounds", std::to_string(original.manifest.rounds.size()),
       std::to_string(copy.manifest.rounds.size()));
  for (const std::string& key :
       differing_fields(original.manifest.baseline, copy.manifest.baseline)) {
    const ConfigField* field = find_config_field(key);
    note(key, field->get(original.manifest.baseline).dump(),
         field->get(copy.manifest.baseline).dump());
  }
  return differences;
}

std::string effect_cell(const std::optional<double>& ratio, const std::optional<double>& low,
                        const std::optional<double>& high) {
  return ratio ? format_effect(*ratio, low, high) : std::string(kNoNumber);
}

std::string verdict_cell(std::optional<Verdict> verdict) {
  return verdict ? verdict_words(*verdict) : std::string(kNoNumber);
}

std::string agreement_cell(const ReproducedArm& arm) {
  switch (arm.agreement) {
    case Agreement::kAgrees: return "yes";
    case Agreement::kDiffers: return "NO";
    case Agreement::kNotCompared: return std::string(kNoNumber);
  }
  return {};
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json verdict_json(std::optional<Verdict> verdict) {
  return verdict ? json(verdict_name(*verdict)) : json();
}

}  // namespace

std::string_view name_of(Agreement agreement) {
  switch (agreement) {
    case Agreement::kAgrees: return "agrees";
    case Agreement::kDiffers: return "differs";
    case Agreement::kNotCompared: return "not_compared";
  }
  return {};
}

Reproduction compare_reproduction(const Bundle& original, const Bundle& copy) {
  const Results original_results = compute_results(original);
  const Results copy_results = compute_results(copy);
  Reproduction reproduction{.differences = differences_of(original, copy)};
  for (const ArmResult& row : original_results.arms) {
    ReproducedArm arm = compare_arm(row, find_arm(copy_results, row.name));
    if (arm.agreement == Agreement::kAgrees) ++reproduction.num_agreeing;
    if (arm.agreement == Agreement::kDiffers) ++reproduction.num_differing;
    reproduction.arms.push_back(std::move(arm));
  }
  return reproduction;
}

Table reproduction_table(const Reproduction& reproduction) {
  Table table{.columns = {{"arm"},
                          {"effect, original"},
                          {"effect, here"},
                          {"agrees"},
                          {"verdict, original"},
                          {"verdict, here"},
                          {"tokens/s, original", Align::kRight},
                          {"tokens/s, here", Align::kRight}}};
  for (const ReproducedArm& arm : reproduction.arms) {
    table.rows.push_back(
        {arm.name, effect_cell(arm.original_ratio, arm.original_low_ratio, arm.original_high_ratio),
         effect_cell(arm.copy_ratio, arm.copy_low_ratio, arm.copy_high_ratio), agreement_cell(arm),
         verdict_cell(arm.original_verdict), verdict_cell(arm.copy_verdict),
         format_or_absent(arm.original_rate_per_s, format_rate),
         format_or_absent(arm.copy_rate_per_s, format_rate)});
  }
  drop_absent_columns(table);
  return table;
}

std::string reproduction_text(const Reproduction& reproduction) {
  std::string text = to_text(reproduction_table(reproduction));
  for (const ReproducedArm& arm : reproduction.arms) {
    if (!arm.reason.empty()) text += wrap(fmt::format("{}: {}", arm.name, arm.reason), 2) + "\n";
  }
  if (!reproduction.differences.empty()) text += "\nWhat differs:\n";
  for (const std::string& difference : reproduction.differences) {
    text += wrap("- " + difference, 2) + "\n";
  }
  const int num_compared = reproduction.num_agreeing + reproduction.num_differing;
  if (num_compared == 0) {
    return text + "\nNOT REPRODUCED: no effect could be compared.\n";
  }
  return text + fmt::format("\n{}: {} of {} effects agree (their intervals overlap).\n",
                            reproduction.is_reproduced() ? "Reproduced" : "NOT REPRODUCED",
                            reproduction.num_agreeing, num_compared);
}

json to_json(const Reproduction& reproduction) {
  json arms = json::array();
  for (const ReproducedArm& arm : reproduction.arms) {
    arms.push_back({{"name", arm.name},
                    {"original_effect_ratio", or_null(arm.original_ratio)},
                    {"original_effect_low_ratio", or_null(arm.original_low_ratio)},
                    {"original_effect_high_ratio", or_null(arm.original_high_ratio)},
                    {"effect_ratio", or_null(arm.copy_ratio)},
                    {"effect_low_ratio", or_null(arm.copy_low_ratio)},
                    {"effect_high_ratio", or_null(arm.copy_high_ratio)},
                    {"original_valid_tokens_per_s", or_null(arm.original_rate_per_s)},
                    {"valid_tokens_per_s", or_null(arm.copy_rate_per_s)},
                    {"original_verdict", verdict_json(arm.original_verdict)},
                    {"verdict", verdict_json(arm.copy_verdict)},
                    {"agreement", name_of(arm.agreement)},
                    {"reason", arm.reason}});
  }
  return {{"schema_version", kSchemaVersion},
          {"arms", arms},
          {"differences", reproduction.differences},
          {"num_agreeing", reproduction.num_agreeing},
          {"num_differing", reproduction.num_differing},
          {"is_reproduced", reproduction.is_reproduced()}};
}

}  // namespace steplens
