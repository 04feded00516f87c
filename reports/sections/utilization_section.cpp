#include <set>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/metrics.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> utilization_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          metric_column("mfu_causal_ratio", "MFU, causal"),
                          metric_column("mfu_full_ratio"),
                          metric_column("peak_flops_per_s", "peak, TFLOP/s"),
                          metric_column("num_matmul_parameters")}};
  std::vector<std::string> notes;
  std::set<std::string> sources;
  std::set<std::string> reasons;
  for (const ArmResult* arm : table_order(input.results)) {
    if (!arm->step_wall_ns) continue;
    if (!arm->mfu_causal_ratio) {
      if (reasons.insert(arm->mfu_reason).second) {
        notes.push_back(fmt::format("{} has no MFU: {}", arm->name, arm->mfu_reason));
      }
      continue;
    }
    sources.insert(arm->peak_source);
    table.rows.push_back({arm->name, format_percent(*arm->mfu_causal_ratio),
                          format_or_absent(arm->mfu_full_ratio, format_percent),
                          format_or_absent(arm->peak_flops_per_s,
                                           [](double flops_per_s) {
                                             return format_significant(flops_per_s * 1e-12);
                                           }),
                          format_count(arm->num_matmul_parameters)});
  }
  std::vector<Part> parts;
  if (!table.rows.empty()) {
    parts.emplace_back(std::move(table));
    for (const std::string& source : sources) notes.push_back("The peak is from " + source);
    parts.emplace_back(Paragraph{
        "Causal counts the lower triangle of the attention (6 L H hd T FLOP a token), full the "
        "whole square (12 L H hd T); the matrix products are 6 N, without the input embedding. "
        "Compare only figures of the same convention."});
  }
  if (!notes.empty()) parts.emplace_back(BulletList{notes});
  return parts;
}

}  // namespace steplens
