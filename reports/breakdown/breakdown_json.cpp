#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/breakdown/breakdown.h"

namespace steplens {
namespace {

using nlohmann::json;

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

// Times and counts of one step, or their means over some: each goes through `mean`.
template <typename Mean>
json times_json(const StepTimes& times, Mean mean) {
  json idle = json::object();
  for (std::size_t i = 0; i < kNumIdleClasses; ++i) {
    idle[fmt::format("{}_ns", name_of(static_cast<IdleClass>(i)))] =
        mean(times.idle_by_class_ns[i]);
  }
  return {{"step_ns", mean(times.step_ns)},
          {"compute_ns", mean(times.compute_ns)},
          {"communication_ns", mean(times.communication_ns)},
          {"communication_exposed_ns", mean(times.communication_exposed_ns)},
          {"communication_overlapped_ns", mean(times.communication_overlapped_ns())},
          {"copy_ns", mean(times.copy_ns)},
          {"copy_exposed_ns", mean(times.copy_exposed_ns)},
          {"copy_overlapped_ns", mean(times.copy_overlapped_ns())},
          {"idle_ns", mean(times.idle_ns)},
          {"idle", std::move(idle)},
          {"num_kernels", mean(times.num_kernels)},
          {"num_copies", mean(times.num_copies)}};
}

enum class GroupDetail : std::uint8_t { kMeans, kSteps, kKernels };

json groups_json(const Breakdown& breakdown, const std::vector<UsageGroup>& groups,
                 GroupDetail detail) {
  json rows = json::array();
  for (const UsageGroup& group : groups) {
    json phases = json::object();
    for (std::size_t i = 0; i < kNumPhases; ++i) {
      if (group.exclusive_by_phase_ns[i] == 0) continue;
      const std::string phase(i == 0 ? "none" : name_of(static_cast<Phase>(i)));
      phases[phase + "_ns"] = breakdown.per_step(group.exclusive_by_phase_ns[i]);
    }
    json row = {{"name", group.key},
                {"exclusive_ns", breakdown.per_step(group.total.exclusive_ns)},
                {"summed_ns", breakdown.per_step(group.total.summed_ns)},
                {"num_operations", breakdown.per_step(group.total.num_operations)},
                {"exclusive_by_phase", std::move(phases)}};
    if (detail == GroupDetail::kKernels) {
      row["display_name"] = group.display;
      row["category"] = name_of(group.category);
    }
    if (detail == GroupDetail::kSteps) {
      json steps = json::array();
      for (const Usage& usage : group.by_step) steps.push_back(usage.exclusive_ns);
      row["exclusive_by_step_ns"] = std::move(steps);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

json steps_json(const Breakdown& breakdown) {
  json rows = json::array();
  for (const StepBreakdown& step : breakdown.steps) {
    json row = times_json(step.times, [](std::int64_t value) { return value; });
    row["step_index"] = step.step_index >= 0 ? json(step.step_index) : json();
    row["start_ns"] = step.device.start_ns;
    row["is_closed"] = step.is_closed;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

json to_json(const Breakdown& breakdown) {
  json result =
      times_json(breakdown.total, [&](std::int64_t total) { return breakdown.per_step(total); });
  result.update(
      {{"kernel_patterns_version", kKernelPatternsVersion},
       {"window_ns", breakdown.window.length_ns()},
       {"has_steps", breakdown.has_steps},
       {"num_counted_steps", breakdown.num_counted_steps},
       {"busy_ratio", or_null(breakdown.busy_ratio())},
       {"coverage_ratio", or_null(breakdown.coverage_ratio())},
       {"is_consistent", breakdown.is_consistent()},
       {"max_imbalance_ns", breakdown.max_imbalance_ns},
       {"has_lost_data", breakdown.has_lost_data},
       {"quality", breakdown.quality},
       {"counts",
        {{"num_operations", breakdown.num_operations},
         {"num_zero_timestamps", breakdown.num_zero_timestamps},
         {"num_end_before_start", breakdown.num_end_before_start},
         {"num_outside_window", breakdown.num_outside_window},
         {"num_other_devices", breakdown.num_other_devices},
         {"num_unattributed", breakdown.num_unattributed},
         {"num_without_launch", breakdown.num_without_launch},
         {"num_idle_steps", breakdown.num_idle_steps}}},
       {"phases", groups_json(breakdown, breakdown.phases, GroupDetail::kSteps)},
       {"categories", groups_json(breakdown, breakdown.categories, GroupDetail::kSteps)},
       {"modules", groups_json(breakdown, breakdown.modules, GroupDetail::kMeans)},
       {"module_kinds", groups_json(breakdown, breakdown.module_kinds, GroupDetail::kMeans)},
       {"kernels", groups_json(breakdown, breakdown.kernels, GroupDetail::kKernels)},
       {"steps", steps_json(breakdown)}});
  return result;
}

}  // namespace steplens
