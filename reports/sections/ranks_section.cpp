#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/json_field.h"
#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/pairs.h"
#include "reports/results/averages.h"
#include "reports/section.h"

namespace steplens {
namespace {

// The mean of a field over an arm's blocks, by rank; ranks without it are left out.
std::map<int, double> means_by_rank(const Bundle& bundle, const std::string& arm,
                                    std::string_view field) {
  std::map<int, std::vector<double>> values;
  for (const BlockRecord* block : usable_blocks(bundle, arm)) {
    if (!block->evidence.is_object() || !block->evidence.contains("ranks")) continue;
    const nlohmann::json& rows = block->evidence.at("ranks");
    if (!rows.is_array()) continue;
    for (const nlohmann::json& row : rows) {
      const auto rank = number_at(row, "rank");
      const auto value = number_at(row, field);
      if (!rank || !value) continue;
      values[static_cast<int>(*rank)].push_back(*value);
    }
  }
  std::map<int, double> means;
  for (const auto& [rank, list] : values) means[rank] = mean_of(list).value_or(0);
  return means;
}

// "1,821 MHz (rank 1)"; without the rank where all are alike.
template <typename Format>
std::string extreme(const std::map<int, double>& means, bool wants_lowest, Format format) {
  if (means.empty()) return std::string(kNoNumber);
  const auto [lowest, highest] =
      std::ranges::minmax_element(means, {}, [](const auto& entry) { return entry.second; });
  const auto& chosen = wants_lowest ? *lowest : *highest;
  const std::string text = format(chosen.second);
  return format(lowest->second) == format(highest->second)
             ? text
             : fmt::format("{} (rank {})", text, chosen.first);
}

}  // namespace

std::vector<Part> ranks_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          {"lowest SM clock", Align::kRight},
                          {"highest SM clock", Align::kRight},
                          {"most power", Align::kRight},
                          {"longest data wait a step", Align::kRight},
                          {"most memory at the peak", Align::kRight}}};
  const auto with_unit = [](std::string_view unit) {
    return [unit](double value) { return fmt::format("{} {}", format_significant(value), unit); };
  };
  std::int64_t world_size = 1;
  for (const ArmResult* arm : table_order(input.results)) {
    const Arm* planned = find_arm(input.bundle.manifest, arm->name);
    const auto means = [&](std::string_view field) {
      return means_by_rank(input.bundle, arm->name, field);
    };
    std::map<int, double> memory = means("peak_allocated_bytes");
    if (memory.empty()) memory = means("peak_rss_bytes");
    if (planned == nullptr || memory.size() < 2) continue;
    world_size = planned->config.world_size;
    std::map<int, double> waits = means("data_wait_ns");
    const auto blocks = usable_blocks(input.bundle, arm->name);
    const std::size_t num_steps = blocks.empty() ? 0 : blocks.front()->steps.size();
    for (auto& [rank, wait_ns] : waits)
      wait_ns /= static_cast<double>(std::max<std::size_t>(1, num_steps));
    const std::map<int, double> clocks = means("mean_sm_clock_mhz");
    table.rows.push_back({arm->name, extreme(clocks, true, with_unit("MHz")),
                          extreme(clocks, false, with_unit("MHz")),
                          extreme(means("mean_power_watts"), false, with_unit("W")),
                          extreme(waits, false, format_duration_ns),
                          extreme(memory, false, format_bytes)});
  }
  if (table.rows.empty()) return {};
  drop_absent_columns(table);
  std::vector<Part> parts;
  parts.emplace_back(std::move(table));
  parts.emplace_back(Paragraph{fmt::format(
      "Means over the blocks, of the rank out of {} that has the least or the most; no rank is "
      "named where all are alike. Ranks wait for each other in every all-reduce, so the slowest "
      "GPU sets the pace of all and their steps are equally long: clocks, waits and memory tell "
      "them apart.",
      world_size)});
  return parts;
}

}  // namespace steplens
