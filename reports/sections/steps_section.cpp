#include <fmt/format.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/metrics.h"
#include "reports/plots/step_plots.h"
#include "reports/section.h"

namespace steplens {
namespace {

// Mild and severe ones by Tukey's fences: "3 + 1".
std::string outliers(const OutlierCounts& counts) {
  if (counts.num_mild + counts.num_severe == 0) return "0";
  return fmt::format("{} + {}", counts.num_mild, counts.num_severe);
}

}  // namespace

std::vector<Part> steps_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          metric_column("positions_per_s"),
                          metric_column("loss_tokens_per_s"),
                          metric_column("step_gpu_ns"),
                          metric_column("pooled_step_p50_ns"),
                          metric_column("pooled_step_p90_ns"),
                          metric_column("pooled_step_p99_ns"),
                          metric_column("data_wait_ratio"),
                          metric_column("compile_ns"),
                          {"outlying steps", Align::kRight},
                          {"outlying blocks", Align::kRight}}};
  for (const ArmResult* arm : table_order(input.results)) {
    if (!arm->step_wall_ns) continue;
    table.rows.push_back({arm->name, format_or_absent(arm->positions_per_s, format_rate),
                          format_or_absent(arm->loss_tokens_per_s, format_rate),
                          format_or_absent(arm->step_gpu_ns, format_duration_ns),
                          format_or_absent(arm->pooled_step_p50_ns, format_duration_ns),
                          format_or_absent(arm->pooled_step_p90_ns, format_duration_ns),
                          format_or_absent(arm->pooled_step_p99_ns, format_duration_ns),
                          format_or_absent(arm->data_wait_ratio, format_percent),
                          format_or_absent(arm->compile_ns, format_duration_ns),
                          outliers(arm->step_outliers), outliers(arm->block_outliers)});
  }
  if (table.rows.empty()) return {};
  drop_absent_columns(table);
  return {
      Image{.file_name = {},
            .description = "All measured steps of each arm around its own median, in percent: a "
                           "second hump or a long tail is a step time that comes back.",
            .svg = step_distribution_svg(input.bundle, input.results)},
      std::move(table),
      Paragraph{"Percentiles pool the steps of all blocks: they describe, and enter no test. "
                "Positions count padding, loss tokens only what is predicted. Data wait is the "
                "share of the step in which the host waits for the next batch; it is inside the "
                "clock. Compile, capture and autotune time is not. Outliers are counted (mild + "
                "severe: beyond 1.5 and 3 interquartile ranges) and never dropped."}};
}

}  // namespace steplens
