#include "reports/breakdown/breakdown_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/breakdown/kernel_names.h"
#include "reports/format.h"
#include "reports/metrics.h"

namespace steplens {
namespace {

// What ranges miss of the device's time is mostly the seed of the backward pass and sums of losses.
constexpr double kMinCoverage = 0.99;
// Smaller rows of a waterfall are noise to a reader.
constexpr double kMinRowRatio = 0.001;
// "-" where there is nothing, so that columns that nobody uses can go.
std::string time_cell(double duration_ns) {
  return duration_ns == 0 ? std::string(kNoNumber) : format_duration_ns(duration_ns);
}

std::string change_cell(double duration_ns) {
  return fmt::format("{}{}", duration_ns > 0 ? "+" : "", format_duration_ns(duration_ns));
}

std::vector<const TracedArm*> usable(std::span<const TracedArm> arms) {
  std::vector<const TracedArm*> result;
  for (const TracedArm& arm : arms) {
    if (arm.breakdown.num_counted_steps > 0) result.push_back(&arm);
  }
  return result;
}

std::int64_t exclusive_ns(const std::vector<UsageGroup>& groups, std::string_view key) {
  const auto it = std::ranges::find(groups, key, &UsageGroup::key);
  return it == groups.end() ? 0 : it->total.exclusive_ns;
}

std::string_view phase_key(std::size_t phase) {
  return phase == 0 ? "none" : name_of(static_cast<Phase>(phase));
}

// A row an arm, a column a group.
template <typename Key>
Table group_table(std::span<const TracedArm> arms, std::vector<UsageGroup> Breakdown::* groups,
                  std::size_t num_columns, Key key) {
  Table table{.columns = {{"arm"}}};
  for (std::size_t i = 0; i < num_columns; ++i) {
    table.columns.push_back({std::string(key(i)), Align::kRight});
  }
  for (const TracedArm* arm : usable(arms)) {
    std::vector<std::string> row = {arm->arm};
    for (std::size_t i = 0; i < num_columns; ++i) {
      row.push_back(
          time_cell(arm->breakdown.per_step(exclusive_ns(arm->breakdown.*groups, key(i)))));
    }
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

std::string hidden_cell(double exposed_ns, double hidden_ns) {
  if (hidden_ns == 0) return time_cell(exposed_ns);
  return fmt::format("{} (+ {} hidden)", format_duration_ns(exposed_ns),
                     format_duration_ns(hidden_ns));
}

std::string ratio_cell(const TracedArm& arm) {
  const std::optional<double> ratio = trace_ratio(arm);
  if (!ratio) return std::string(kNoNumber);
  return fmt::format("{:.3f}{}", *ratio, is_distorted(arm) ? ", distorted" : "");
}

std::string quality_text(const std::map<std::string, std::int64_t>& quality) {
  std::vector<std::string> words;
  for (const auto& [name, count] : quality) {
    if (!has_lost_data({{name, count}})) continue;
    words.push_back(fmt::format("{} {}", name, format_count(count)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

void add_loud_warnings(const TracedArm& arm, std::vector<std::string>& warnings) {
  if (arm.breakdown.has_lost_data) {
    warnings.push_back(
        fmt::format("{}: LOST DATA ({}): its times are too small and its idle time too large",
                    arm.arm, quality_text(arm.breakdown.quality)));
  }
  const std::optional<double> ratio = trace_ratio(arm);
  if (ratio && is_distorted(arm)) {
    warnings.push_back(
        fmt::format("{}: DISTORTED: a traced step takes {:.3f} times as long as one "
                    "that is not traced",
                    arm.arm, *ratio));
  }
}

void add_warnings(const TracedArm& arm, std::vector<std::string>& warnings) {
  const Breakdown& breakdown = arm.breakdown;
  if (breakdown.num_counted_steps == 0) {
    warnings.push_back(fmt::format("{}: the trace has no usable step", arm.arm));
    return;
  }
  if (!breakdown.is_consistent()) {
    warnings.push_back(
        fmt::format("{}: the parts of a step miss its length by {}", arm.arm,
                    format_duration_ns(static_cast<double>(breakdown.max_imbalance_ns))));
  }
  if (!breakdown.has_steps) {
    warnings.push_back(
        fmt::format("{}: the trace names no steps; its whole window counts as one", arm.arm));
  }
  const std::optional<double> coverage = breakdown.coverage_ratio();
  if (coverage && *coverage < kMinCoverage) {
    warnings.push_back(fmt::format("{}: only {} of the device's time has a phase and a module",
                                   arm.arm, format_percent(*coverage)));
  }
  if (breakdown.num_idle_steps > 0) {
    warnings.push_back(fmt::format("{}: {} steps have no operation on the device", arm.arm,
                                   format_count(breakdown.num_idle_steps)));
  }
  const std::int64_t num_bad = breakdown.num_zero_timestamps + breakdown.num_end_before_start;
  if (num_bad > 0) {
    warnings.push_back(fmt::format("{}: {} operations with zero or reversed times are left out",
                                   arm.arm, format_count(num_bad)));
  }
}

}  // namespace

Table breakdown_table(std::span<const TracedArm> arms) {
  Table table{.columns = {{"arm"},
                          metric_column("step_ns"),
                          metric_column("compute_ns"),
                          metric_column("communication_exposed_ns"),
                          metric_column("copy_exposed_ns"),
                          metric_column("idle_ns"),
                          metric_column("busy_ratio"),
                          metric_column("num_kernels"),
                          metric_column("coverage_ratio"),
                          {"trace / throughput", Align::kRight}}};
  for (const TracedArm* arm : usable(arms)) {
    const Breakdown& breakdown = arm->breakdown;
    const StepTimes& total = breakdown.total;
    const auto mean = [&](std::int64_t sum) { return breakdown.per_step(sum); };
    table.rows.push_back(
        {arm->arm, format_duration_ns(breakdown.mean_step_ns()), time_cell(mean(total.compute_ns)),
         hidden_cell(mean(total.communication_exposed_ns),
                     mean(total.communication_overlapped_ns())),
         hidden_cell(mean(total.copy_exposed_ns), mean(total.copy_overlapped_ns())),
         time_cell(mean(total.idle_ns)), format_or_absent(breakdown.busy_ratio(), format_percent),
         format_mean_count(mean(total.num_kernels)),
         format_or_absent(breakdown.coverage_ratio(), format_percent), ratio_cell(*arm)});
  }
  drop_absent_columns(table);
  return table;
}

Table idle_table(std::span<const TracedArm> arms) {
  Table table{.columns = {{"arm"}, metric_column("idle_ns")}};
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    table.columns.push_back({std::string(label_of(static_cast<IdleClass>(i))), Align::kRight});
  }
  for (const TracedArm* arm : usable(arms)) {
    const Breakdown& breakdown = arm->breakdown;
    std::vector<std::string> row = {arm->arm,
                                    time_cell(breakdown.per_step(breakdown.total.idle_ns))};
    for (const std::int64_t part_ns : breakdown.total.idle_by_class_ns) {
      row.push_back(time_cell(breakdown.per_step(part_ns)));
    }
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

Table category_table(std::span<const TracedArm> arms) {
  return group_table(arms, &Breakdown::categories, kNumKernelCategories,
                     [](std::size_t i) { return name_of(static_cast<KernelCategory>(i)); });
}

Table phase_table(std::span<const TracedArm> arms) {
  // Whatever has no phase comes last.
  return group_table(arms, &Breakdown::phases, kNumPhases,
                     [](std::size_t i) { return phase_key((i + 1) % kNumPhases); });
}

Table module_table(const Breakdown& breakdown) {
  Table table{.columns = {{"module"}, metric_column("exclusive_ns"), {"share", Align::kRight}}};
  for (std::size_t i = 0; i < kNumPhases; ++i) {
    table.columns.push_back({std::string(phase_key((i + 1) % kNumPhases)), Align::kRight});
  }
  table.columns.push_back({"operations", Align::kRight});
  for (const UsageGroup& group : breakdown.module_kinds) {
    if (group.total == Usage()) continue;
    std::vector<std::string> row = {
        group.key, format_duration_ns(breakdown.per_step(group.total.exclusive_ns)),
        format_percent(static_cast<double>(group.total.exclusive_ns) /
                       static_cast<double>(breakdown.total.step_ns))};
    for (std::size_t i = 0; i < kNumPhases; ++i) {
      row.push_back(
          time_cell(breakdown.per_step(group.exclusive_by_phase_ns[(i + 1) % kNumPhases])));
    }
    row.push_back(format_mean_count(breakdown.per_step(group.total.num_operations)));
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

Table kernel_table(const Breakdown& breakdown, std::size_t max_rows) {
  Table table{.columns = {{"kernel"},
                          {"category"},
                          metric_column("exclusive_ns"),
                          {"share", Align::kRight},
                          {"count", Align::kRight},
                          {"mean", Align::kRight}}};
  const auto add_row = [&](std::string name, std::string_view category, const Usage& usage) {
    table.rows.push_back({std::move(name), std::string(category),
                          format_duration_ns(breakdown.per_step(usage.exclusive_ns)),
                          format_percent(static_cast<double>(usage.exclusive_ns) /
                                         static_cast<double>(breakdown.total.step_ns)),
                          format_mean_count(breakdown.per_step(usage.num_operations)),
                          usage.num_operations == 0
                              ? std::string(kNoNumber)
                              : format_duration_ns(static_cast<double>(usage.summed_ns) /
                                                   static_cast<double>(usage.num_operations))});
  };
  Usage rest;
  std::size_t num_rest = 0;
  for (const UsageGroup& group : breakdown.kernels) {
    if (group.total == Usage()) continue;
    if (table.rows.size() < max_rows) {
      add_row(shortened_name(group.display), name_of(group.category), group.total);
    } else {
      rest += group.total;
      ++num_rest;
    }
  }
  if (num_rest > 0) add_row(fmt::format("{} others", num_rest), "", rest);
  return table;
}

std::vector<std::string> breakdown_warnings(std::span<const TracedArm> arms) {
  std::vector<std::string> warnings;
  for (const TracedArm& arm : arms) add_loud_warnings(arm, warnings);
  for (const TracedArm& arm : arms) add_warnings(arm, warnings);
  return warnings;
}

std::vector<WaterfallRow> shown_rows(const Waterfall& waterfall,
                                     std::span<const WaterfallRow> rows) {
  const auto step_ns = static_cast<double>(waterfall.reference_step_ns);
  std::vector<WaterfallRow> shown;
  WaterfallRow rest = {.key = "rest"};
  int num_rest = 0;
  for (const WaterfallRow& row : rows) {
    if (std::abs(static_cast<double>(row.difference_ns)) >= kMinRowRatio * step_ns) {
      shown.push_back(row);
      continue;
    }
    if (row.reference_ns == 0 && row.candidate_ns == 0) continue;
    rest.reference_ns += row.reference_ns;
    rest.candidate_ns += row.candidate_ns;
    rest.difference_ns += row.difference_ns;
    ++num_rest;
  }
  std::ranges::sort(shown, {}, [](const WaterfallRow& row) {
    return std::pair(-std::abs(row.difference_ns), std::string_view(row.key));
  });
  if (num_rest > 0) {
    rest.label = fmt::format("{} others, below 0.1 % each", num_rest);
    shown.push_back(std::move(rest));
  }
  return shown;
}

Table waterfall_table(const Waterfall& waterfall, std::span<const WaterfallRow> rows) {
  Table table{.columns = {{"part"},
                          {"reference", Align::kRight},
                          {"arm", Align::kRight},
                          {"difference", Align::kRight},
                          {"of the reference's step", Align::kRight}}};
  const auto step_ns = static_cast<double>(waterfall.reference_step_ns);
  const auto add_row = [&](const WaterfallRow& row) {
    const auto difference_ns = static_cast<double>(row.difference_ns);
    table.rows.push_back(
        {row.label, time_cell(row.reference_ns), time_cell(row.candidate_ns),
         change_cell(difference_ns),
         step_ns > 0 ? format_change(1 + difference_ns / step_ns) : std::string(kNoNumber)});
  };
  for (const WaterfallRow& row : shown_rows(waterfall, rows)) add_row(row);
  add_row({.key = "step",
           .label = "step",
           .reference_ns = step_ns,
           .candidate_ns = static_cast<double>(waterfall.candidate_step_ns),
           .difference_ns = waterfall.difference_ns});
  return table;
}

Table kernel_change_table(const Waterfall& waterfall, std::size_t max_rows) {
  Table table{.columns = {{"kernel"},
                          {"category"},
                          {"change"},
                          {"count", Align::kRight},
                          {"reference", Align::kRight},
                          {"arm", Align::kRight},
                          {"difference", Align::kRight}}};
  for (const KernelDifference& kernel : waterfall.kernels) {
    if (table.rows.size() == max_rows || kernel.row.difference_ns == 0) break;
    const bool is_gone = kernel.change == KernelChange::kOnlyInReference;
    const bool is_new = kernel.change == KernelChange::kOnlyInCandidate;
    const std::string before = format_mean_count(kernel.num_reference_operations);
    const std::string after = format_mean_count(kernel.num_candidate_operations);
    table.rows.push_back({shortened_name(kernel.row.label), std::string(name_of(kernel.category)),
                          is_gone  ? "gone"
                          : is_new ? "new"
                                   : "",
                          before == after ? before : fmt::format("{} to {}", before, after),
                          time_cell(kernel.row.reference_ns), time_cell(kernel.row.candidate_ns),
                          change_cell(static_cast<double>(kernel.row.difference_ns))});
  }
  return table;
}

std::string breakdown_text(std::span<const TracedArm> arms) {
  std::string text;
  for (const std::string& warning : breakdown_warnings(arms)) {
    text += wrap("warning: " + warning, 2) + "\n";
  }
  for (auto make_table : {&breakdown_table, &idle_table, &category_table}) {
    const Table table = make_table(arms);
    if (table.rows.empty() || table.columns.size() < 2) continue;
    text += (text.empty() ? "" : "\n") + to_text(table);
  }
  return text;
}

}  // namespace steplens
