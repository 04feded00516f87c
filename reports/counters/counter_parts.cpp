#include "reports/counters/counter_parts.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"

namespace steplens {
namespace {

// "sm_active" is "sm active" to people.
std::string header_of(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

// The counters that at least one arm has, in the order of their first.
std::vector<std::string> sampled_names(std::span<const CounterArm> arms) {
  std::vector<std::string> names;
  for (const CounterArm& arm : arms) {
    for (const CounterUse& use : arm.summary.counters) {
      if (use.mean && std::ranges::find(names, use.name) == names.end()) {
        names.push_back(use.name);
      }
    }
  }
  return names;
}

const CounterUse* find_use(const CounterArm& arm, const std::string& name) {
  const auto it = std::ranges::find(arm.summary.counters, name, &CounterUse::name);
  return it == arm.summary.counters.end() ? nullptr : &*it;
}

// In the counter's unit.
std::string value_cell(const CounterUse& use, std::optional<double> value) {
  if (!value) return std::string(kNoNumber);
  return use.unit == "MHz" ? fmt::format("{:.0f} MHz", *value) : format_percent(*value);
}

std::string mean_cell(const CounterUse* use) {
  if (use == nullptr || !use->mean) return std::string(kNoNumber);
  return fmt::format("{} (p95 {})", value_cell(*use, use->mean), value_cell(*use, use->p95));
}

}  // namespace

Table counter_table(std::span<const CounterArm> arms) {
  const std::vector<std::string> names = sampled_names(arms);
  Table table{.columns = {{"arm"}}};
  for (const std::string& name : names) table.columns.push_back({header_of(name), Align::kRight});
  table.columns.push_back({"sampled / throughput", Align::kRight});
  for (const CounterArm& arm : arms) {
    if (!arm.summary.has_numbers()) continue;
    std::vector<std::string> row = {arm.arm};
    for (const std::string& name : names) row.push_back(mean_cell(find_use(arm, name)));
    row.push_back(format_quotient(arm.step_ns, arm.throughput_step_ns));
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

Table counter_phase_table(std::span<const CounterArm> arms) {
  const std::vector<std::string> names = sampled_names(arms);
  Table table{.columns = {{"arm"}, {"phase"}}};
  for (const std::string& name : names) table.columns.push_back({header_of(name), Align::kRight});
  for (const CounterArm& arm : arms) {
    const auto add_row = [&](std::string_view phase, auto mean_of) {
      std::vector<std::string> row = {arm.arm, std::string(phase)};
      bool has_number = false;
      for (const std::string& name : names) {
        const CounterUse* use = find_use(arm, name);
        const std::optional<double> mean = use == nullptr ? std::nullopt : mean_of(*use);
        has_number = has_number || mean;
        row.push_back(mean ? value_cell(*use, mean) : std::string(kNoNumber));
      }
      if (has_number) table.rows.push_back(std::move(row));
    };
    for (std::size_t i = 0; i < kNumPhases; ++i) {
      const std::string_view name = name_of(static_cast<Phase>(i));
      add_row(name.empty() ? "none" : name,
              [&](const CounterUse& use) { return use.mean_by_phase[i]; });
    }
    add_row("idle", [](const CounterUse& use) { return use.mean_idle; });
  }
  return table;
}

std::vector<std::string> counter_notes(std::span<const CounterArm> arms) {
  std::vector<std::string> notes;
  for (const CounterArm& arm : arms) {
    std::map<std::string, std::vector<std::string>> absent;  // Maps a reason to its counters.
    for (const CounterUse& use : arm.summary.counters) {
      if (!use.absent_reason.empty()) absent[use.absent_reason].push_back(header_of(use.name));
    }
    for (const auto& [reason, names] : absent) {
      const bool is_all = names.size() == arm.summary.counters.size();
      notes.push_back(is_all ? fmt::format("{}: not available: {}", arm.arm, reason)
                             : fmt::format("{}: {} not available: {}", arm.arm,
                                           fmt::join(names, ", "), reason));
    }
    const CounterSummary& summary = arm.summary;
    if (summary.num_overflows > 0 || summary.num_missing_samples > 0) {
      notes.push_back(fmt::format(
          "{}: samples were lost: the GPU's buffer overflowed {} times, {} samples are "
          "missing between others",
          arm.arm, format_count(summary.num_overflows), format_count(summary.num_missing_samples)));
    }
    if (summary.num_invalid_samples > 0) {
      notes.push_back(fmt::format("{}: {} samples with impossible times were left out", arm.arm,
                                  format_count(summary.num_invalid_samples)));
    }
    if (!summary.failure.empty()) {
      notes.push_back(fmt::format("{}: sampling ended early: {}", arm.arm, summary.failure));
    }
  }
  return notes;
}

}  // namespace steplens
