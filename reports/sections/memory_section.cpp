#include <algorithm>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/metrics.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string bytes(std::optional<std::int64_t> value) {
  return format_or_absent(
      value, [](std::int64_t count) { return format_bytes(static_cast<double>(count)); });
}

std::vector<Part> counter_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          metric_column("peak_allocated_bytes"),
                          metric_column("graph_pool_hidden_bytes"),
                          metric_column("peak_reserved_bytes"),
                          metric_column("driver_used_bytes"),
                          metric_column("unaccounted_bytes"),
                          metric_column("num_alloc_retries"),
                          metric_column("peak_rss_bytes")}};
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

// Without those that look like the arm that they are compared with.
std::vector<MemoryArm> arms_worth_a_picture(std::span<const MemoryArm> arms) {
  constexpr double kNotableRatio = 1.05;
  std::vector<MemoryArm> drawn;
  for (const MemoryArm& arm : arms) {
    const auto reference = std::ranges::find(arms, arm.reference, &MemoryArm::arm);
    if (!arm.reference.empty() && reference != arms.end()) {
      const auto after = static_cast<double>(arm.use.peak.allocated_bytes());
      const auto before = static_cast<double>(reference->use.peak.allocated_bytes());
      if (after < before * kNotableRatio && before < after * kNotableRatio) continue;
    }
    drawn.push_back(arm);
  }
  return drawn;
}

std::vector<Part> account_parts(const ReportInput& input) {
  Table table = memory_table(input.memory_arms);
  if (table.rows.empty()) return {};
  std::vector<Part> parts;
  const std::vector<std::string> warnings = memory_warnings(input.memory_arms);
  if (!warnings.empty()) parts.emplace_back(BulletList{warnings});
  parts.emplace_back(
      Image{.file_name = {},
            .description = "Device memory at the high-water mark, one bar an arm: its owners, then "
                           "cache slack and what is unaccounted.",
            .svg = memory_peak_svg(input.memory_arms)});
  parts.emplace_back(std::move(table));
  parts.emplace_back(Paragraph{
      "Who owned the bytes at the high-water mark, from a block of its own that records every "
      "allocation; the owners sum to the peak. Activations are all that forward and backward "
      "allocate, workspace is what clip and optimizer do and the buffers that outlive a step. "
      "Cache slack is reserved but not allocated; unaccounted is what the driver saw beyond the "
      "allocator. Tracked / throughput: step time with the recorder against that without."});
  if (Table differences = memory_difference_table(input.memory_arms); !differences.rows.empty()) {
    parts.emplace_back(Paragraph{"Against the arm that each is compared with:"});
    parts.emplace_back(std::move(differences));
  }
  const std::vector<MemoryArm> drawn = arms_worth_a_picture(input.memory_arms);
  if (std::string svg = memory_svg(drawn); !svg.empty()) {
    parts.emplace_back(
        Image{.file_name = std::string(kMemoryPlot),
              .description = fmt::format(
                  "Allocated bytes through one step, stacked by owner, one arm each{}",
                  drawn.size() == input.memory_arms.size()
                      ? ""
                      : "; arms whose peak lies within 5 % of their reference's are left out"),
              .svg = std::move(svg)});
  }
  const MemoryArm& first = input.memory_arms.front();
  if (Table modules = memory_module_table(first.use.peak); !modules.rows.empty()) {
    parts.emplace_back(Paragraph{fmt::format("At the peak of {}, by module:", first.arm)});
    parts.emplace_back(std::move(modules));
  }
  return parts;
}

}  // namespace

std::vector<Part> memory_parts(const ReportInput& input) {
  std::vector<Part> parts = counter_parts(input);
  for (Part& part : account_parts(input)) parts.push_back(std::move(part));
  return parts;
}

}  // namespace steplens
