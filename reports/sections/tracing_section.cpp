#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/metrics.h"
#include "reports/overhead/tracing_cost.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string points(double ratio) { return fmt::format("{:+.2f} pp", 100 * ratio); }

void add_row(Table& table, std::string_view what, const TracingCost& cost) {
  table.rows.push_back({std::string(what), cost.arm, cost.against, format_count(cost.num_rounds),
                        fmt::format("{} [{:.2f}, {:.2f}]", points(cost.cost_ratio),
                                    100 * cost.cost_low_ratio, 100 * cost.cost_high_ratio),
                        points(cost.cost_upper_ratio),
                        format_or_absent(cost.num_recorded_kernels, format_mean_count),
                        format_or_absent(cost.kernel_cost_ns, format_duration_ns)});
}

Table cost_table(const TracingCosts& costs) {
  Table table{.columns = {{"what"},
                          {"arm"},
                          {"against"},
                          {"rounds", Align::kRight},
                          metric_column("cost_ratio", "longer steps [95 %]"),
                          metric_column("cost_upper_ratio"),
                          metric_column("num_recorded_kernels"),
                          metric_column("kernel_cost_ns")}};
  for (const TracingCost& cost : costs.of_steplens) {
    const bool is_full = costs.of_collector && cost.arm == costs.of_collector->arm;
    add_row(table, is_full ? "Steplens's tracing" : "CUPTI alone, records thrown away", cost);
  }
  if (costs.of_collector) add_row(table, "what the collector adds", *costs.of_collector);
  if (costs.of_torch_profiler) add_row(table, "torch.profiler", *costs.of_torch_profiler);
  drop_absent_columns(table);
  return table;
}

// Kernels of the PyTorch step as torch.profiler and a trace of Steplens saw them.
std::string kernel_comparison(const TracingCosts& costs, const ReportInput& input) {
  const TracedArm* traced = find_traced_arm(input.traced_arms, "torch-eager");
  if (traced == nullptr || !costs.torch_profiler_kernel_ns || !costs.torch_profiler_num_kernels ||
      traced->breakdown.num_counted_steps == 0) {
    return "";
  }
  const Breakdown& breakdown = traced->breakdown;
  std::int64_t summed_ns = 0;
  for (const UsageGroup& kernel : breakdown.kernels) summed_ns += kernel.total.summed_ns;
  const double kernel_ns = breakdown.per_step(summed_ns);
  const double ratio = kernel_ns / *costs.torch_profiler_kernel_ns - 1;
  return fmt::format(
      "The same PyTorch step, seen twice: torch.profiler counts {} kernels of {} a step together "
      "(median of its blocks), Steplens's trace of torch-eager {} of {}, {:+.2f} %.",
      format_mean_count(*costs.torch_profiler_num_kernels),
      format_duration_ns(*costs.torch_profiler_kernel_ns),
      format_mean_count(breakdown.per_step(breakdown.total.num_kernels)),
      format_duration_ns(kernel_ns), 100 * ratio);
}

}  // namespace

std::vector<Part> tracing_parts(const ReportInput& input) {
  if (!input.results.tracing_costs) return {};
  const TracingCosts& costs = *input.results.tracing_costs;
  std::vector<Part> parts = {
      Paragraph{"How much longer a step is while it is traced, in percentage points of the step, "
                "from pairs in the same round. The upper bound is one-sided: the cost is below it "
                "with 95 % confidence."},
      cost_table(costs)};
  if (costs.of_torch_profiler) {
    for (const TracingCost& cost : costs.of_steplens) {
      if (!costs.of_collector || cost.arm != costs.of_collector->arm) continue;
      if (cost.cost_ratio <= 0 || costs.of_torch_profiler->cost_ratio <= 0) continue;
      parts.emplace_back(Paragraph{fmt::format(
          "torch.profiler's cost to its own step is {} times that of Steplens's tracing.",
          format_significant(costs.of_torch_profiler->cost_ratio / cost.cost_ratio, 2))});
    }
  }
  if (std::string text = kernel_comparison(costs, input); !text.empty()) {
    parts.emplace_back(Paragraph{std::move(text)});
  }
  return parts;
}

}  // namespace steplens
