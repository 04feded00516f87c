#include "viewer/draw/kernel_changes.h"

#include <cmath>

#include <fmt/format.h>

#include "reports/breakdown/kernel_names.h"
#include "reports/format.h"

namespace steplens {
namespace {

TableCell duration_cell(double duration_ns) {
  return {.text = duration_ns > 0 ? format_duration_ns(duration_ns) : std::string(kNoNumber),
          .number = duration_ns,
          .exact = fmt::format("{:.1f}", duration_ns)};
}

TableCell count_cell(double count) {
  return {.text = count > 0 ? format_mean_count(count) : std::string(kNoNumber),
          .number = count,
          .exact = fmt::format("{}", count)};
}

std::string change_text(std::int64_t change_ns) {
  if (change_ns == 0) return "0";
  return fmt::format("{}{}", change_ns < 0 ? "-" : "+",
                     format_duration_ns(std::abs(static_cast<double>(change_ns))));
}

ImU32 colour_of_change(const Theme& theme, std::int64_t change_ns) {
  if (change_ns == 0) return theme.muted;
  return change_ns < 0 ? theme.good : theme.bad;
}

}  // namespace

std::vector<TableColumn> kernel_change_columns() {
  return {{.header = "Kernel", .tooltip = "Double click: show it in the timeline"},
          {.header = "A / step", .is_number = true, .width_units = 86},
          {.header = "B / step", .is_number = true, .width_units = 86},
          {.header = "Change", .is_number = true, .width_units = 92},
          {.header = "A ops", .is_number = true, .width_units = 64},
          {.header = "B ops", .is_number = true, .width_units = 64}};
}

TableRow kernel_change_row(const Theme& theme, const KernelDifference& kernel) {
  const WaterfallRow& row = kernel.row;
  const double change_ns = std::abs(static_cast<double>(row.difference_ns));
  return {.cells = {{.text = row.label.empty() ? kernel_display_name(row.key) : row.label,
                     .exact = row.key},
                    duration_cell(row.reference_ns),
                    duration_cell(row.candidate_ns),
                    {.text = change_text(row.difference_ns),
                     .number = change_ns,
                     .exact = fmt::format("{}", row.difference_ns),
                     .colour = colour_of_change(theme, row.difference_ns)},
                    count_cell(kernel.num_reference_operations),
                    count_cell(kernel.num_candidate_operations)},
          .id = row.key};
}

}  // namespace steplens
