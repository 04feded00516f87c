#include <fmt/format.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/metrics.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string half_width(const ArmResult& arm) {
  if (!arm.effect_low_ratio || !arm.effect_high_ratio) return std::string(kNoNumber);
  return format_percent((*arm.effect_high_ratio - *arm.effect_low_ratio) / 2);
}

}  // namespace

std::vector<Part> sensitivity_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          metric_column("num_rounds"),
                          metric_column("block_sd_ratio"),
                          {"half-width", Align::kRight},
                          metric_column("p_value"),
                          metric_column("min_detectable_ratio")}};
  for (const ArmResult* arm : table_order(input.results)) {
    if (!arm->step_wall_ns) continue;
    table.rows.push_back({arm->name, fmt::format("{}", arm->num_rounds),
                          format_or_absent(arm->block_sd_ratio, format_percent), half_width(*arm),
                          format_or_absent(arm->p_value, format_p),
                          format_or_absent(arm->min_detectable_ratio, [](double ratio) {
                            return format_percent(ratio - 1);
                          })});
  }
  if (table.rows.empty()) return {};
  drop_absent_columns(table);
  return {
      std::move(table),
      Paragraph{"Noise of a block: standard deviation of the logarithm of one block's rate, slow "
                "drift taken out. An effect smaller than the last column may be there and stay "
                "unseen; it is given from 8 rounds on, for all comparisons together."}};
}

}  // namespace steplens
