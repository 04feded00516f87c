#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string bytes(std::optional<std::int64_t> value) {
  return format_or_absent(
      value, [](std::int64_t count) { return format_bytes(static_cast<double>(count)); });
}

}  // namespace

std::vector<Part> memory_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          {"peak allocated", Align::kRight},
                          {"of it graph pools", Align::kRight},
                          {"peak reserved", Align::kRight},
                          {"driver's peak", Align::kRight},
                          {"unaccounted", Align::kRight},
                          {"retries", Align::kRight},
                          {"peak RSS", Align::kRight}}};
  for (const ArmResult* arm : table_order(input.results)) {
    if (!arm->step_wall_ns) continue;
    table.rows.push_back({arm->name, bytes(arm->peak_allocated_bytes),
                          bytes(arm->graph_pool_hidden_bytes), bytes(arm->peak_reserved_bytes),
                          bytes(arm->driver_used_bytes), bytes(arm->unaccounted_bytes),
                          format_or_absent(arm->num_alloc_retries, format_count),
                          bytes(arm->peak_rss_bytes)});
  }
  drop_absent_columns(table);
  if (table.rows.empty() || table.columns.size() == 1) return {};
  return {
      std::move(table),
      Paragraph{"Medians over the blocks, peaks since the end of the warm-up. Unaccounted is what "
                "the driver saw beyond the allocator: context, library workspaces, and whatever "
                "else was on the GPU. Retries: allocations that succeeded only after the cache "
                "was emptied; they cost time."}};
}

}  // namespace steplens
