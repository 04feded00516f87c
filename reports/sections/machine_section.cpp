#include <fmt/format.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/metrics.h"
#include "reports/section.h"

namespace steplens {
namespace {

// "sw_power_cap 12.3 %, ..."; reasons that never showed are left out.
std::string throttling(const ArmResult& arm) {
  std::string text;
  for (const auto& [reason, share] : arm.throttle_shares) {
    if (share <= 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", reason, format_percent(share));
  }
  return text.empty() && !arm.throttle_shares.empty() ? "none" : text;
}

}  // namespace

std::vector<Part> machine_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          metric_column("mean_sm_clock_mhz"),
                          metric_column("effect_per_cycle_ratio"),
                          metric_column("mean_power_watts"),
                          metric_column("energy_per_token_j"),
                          metric_column("max_temperature_celsius"),
                          metric_column("cpu_time_ratio"),
                          {.header = std::string(find_metric("throttle_shares")->title),
                           .metric = "throttle_shares"}}};
  const auto with_unit = [](std::string_view unit) {
    return [unit](double value) { return fmt::format("{} {}", format_significant(value), unit); };
  };
  for (const ArmResult* arm : table_order(input.results)) {
    if (!arm->step_wall_ns) continue;
    table.rows.push_back(
        {arm->name, format_or_absent(arm->mean_sm_clock_mhz, with_unit("MHz")),
         format_or_absent(arm->effect_per_cycle_ratio, format_change),
         format_or_absent(arm->mean_power_watts, with_unit("W")),
         format_or_absent(arm->energy_per_token_j,
                          [](double joules) { return format_significant(1000 * joules, 3); }),
         format_or_absent(arm->max_temperature_celsius,
                          [](double celsius) { return format_significant(celsius, 2) + " C"; }),
         format_or_absent(arm->cpu_time_ratio,
                          [](double ratio) { return format_significant(ratio, 3); }),
         throttling(*arm)});
  }
  drop_absent_columns(table);
  if (table.rows.empty() || table.columns.size() == 1) return {};
  return {std::move(table)};
}

}  // namespace steplens
