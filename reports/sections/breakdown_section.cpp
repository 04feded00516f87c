#include "reports/breakdown/breakdown_parts.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> breakdown_parts(const ReportInput& input) {
  if (input.traced_arms.empty()) return {};
  std::vector<Part> parts;
  const std::vector<std::string> warnings = breakdown_warnings(input.traced_arms);
  if (!warnings.empty()) parts.emplace_back(BulletList{warnings});
  Table table = breakdown_table(input.traced_arms);
  if (table.rows.empty()) return parts;
  parts.emplace_back(std::move(table));
  parts.emplace_back(
      Image{.file_name = std::string(kBreakdownPlot),
            .description = "Where a step's time goes: stacked bars by category, one an arm",
            .svg = breakdown_svg(input.traced_arms)});
  parts.emplace_back(Paragraph{
      "Means a step, on the device's clock. What runs at the same time counts once, computation "
      "before communication before copies by the copy engines, so the parts sum to the step; "
      "hidden is what ran behind something else. Coverage is the share of the device's time whose "
      "phase, and in forward and backward whose module, comes from a range. Trace / throughput "
      "compares with the blocks that were not traced: above 1.10 the breakdown is distorted."});
  for (auto make_table : {&idle_table, &category_table, &phase_table}) {
    Table next = make_table(input.traced_arms);
    if (next.columns.size() > 1) parts.emplace_back(std::move(next));
  }
  parts.emplace_back(Paragraph{
      "Idle time by why: data wait, sync (the host had waited until the device was empty) and late "
      "launch (the host came too late for any other reason) are the host's; a dependency had been "
      "launched in time. Categories come from the names of kernels."});
  return parts;
}

}  // namespace steplens
