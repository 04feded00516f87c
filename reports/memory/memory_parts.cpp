#include "reports/memory/memory_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "reports/breakdown/modules.h"
#include "reports/format.h"
#include "reports/metrics.h"

namespace steplens {
namespace {

// Left to right: what stays through the step before what comes and goes.
constexpr std::array<MemoryOwner, kNumMemoryOwners> kColumns = {
    MemoryOwner::kParameters,  MemoryOwner::kGradients, MemoryOwner::kOptimizerState,
    MemoryOwner::kActivations, MemoryOwner::kWorkspace, MemoryOwner::kData,
    MemoryOwner::kGraphPool,   MemoryOwner::kUnknown};

std::string bytes_cell(std::int64_t bytes) {
  return bytes == 0 ? std::string(kNoNumber) : format_bytes(static_cast<double>(bytes));
}

std::string bytes_cell(const std::optional<std::int64_t>& bytes) {
  return bytes ? format_bytes(static_cast<double>(*bytes)) : std::string(kNoNumber);
}

std::string change_cell(std::int64_t bytes) {
  if (bytes == 0) return std::string(kNoNumber);
  return fmt::format("{}{}", bytes < 0 ? "-" : "+",
                     format_bytes(std::abs(static_cast<double>(bytes))));
}

std::string change_cell(const std::optional<std::int64_t>& candidate,
                        const std::optional<std::int64_t>& reference) {
  return candidate && reference ? change_cell(*candidate - *reference) : std::string(kNoNumber);
}

void add_owner_columns(Table& table) {
  for (const MemoryOwner owner : kColumns) {
    table.columns.push_back({label_of(owner), Align::kRight});
  }
}

void add_owner_cells(const OwnerBytes& bytes, std::vector<std::string>& row) {
  for (const MemoryOwner owner : kColumns) row.push_back(bytes_cell(bytes_of(bytes, owner)));
}

bool has_account(const MemoryArm& arm) { return arm.use.num_allocations > 0; }

}  // namespace

MemoryArm memory_arm(const Trace& trace) {
  MemoryArm arm{.use = compute_memory_use(trace)};
  if (!trace.steps.empty()) {
    // A peak outside the steps is one of what was there before them.
    arm.timeline = memory_timeline(trace, std::max(0, arm.use.peak.step_index));
  }
  return arm;
}

Table memory_table(std::span<const MemoryArm> arms) {
  Table table{.columns = {{"arm"}, metric_column("allocated_bytes")}};
  add_owner_columns(table);
  for (const char* key : {"cache_slack_bytes", "driver_used_peak_bytes", "unaccounted_bytes"}) {
    table.columns.push_back(metric_column(key));
  }
  table.columns.push_back({"tracked / throughput", Align::kRight});
  for (const MemoryArm& arm : arms) {
    if (!has_account(arm)) continue;
    const MemoryAccount& peak = arm.use.peak;
    std::vector<std::string> row = {arm.arm, bytes_cell(peak.allocated_bytes())};
    add_owner_cells(peak.by_owner, row);
    row.push_back(bytes_cell(peak.cache_slack_bytes()));
    row.push_back(bytes_cell(arm.use.driver_used_peak_bytes));
    row.push_back(bytes_cell(arm.use.unaccounted_bytes));
    row.push_back(format_quotient(arm.step_ns, arm.throughput_step_ns));
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

Table memory_difference_table(std::span<const MemoryArm> arms) {
  Table table{.columns = {{"arm"}, {"against"}, metric_column("allocated_bytes")}};
  add_owner_columns(table);
  for (const char* key : {"cache_slack_bytes", "driver_used_peak_bytes"}) {
    table.columns.push_back(metric_column(key));
  }
  for (const MemoryArm& arm : arms) {
    const auto reference = std::ranges::find(arms, arm.reference, &MemoryArm::arm);
    if (arm.reference.empty() || reference == arms.end()) continue;
    if (!has_account(arm) || !has_account(*reference)) continue;
    const MemoryAccount& peak = arm.use.peak;
    const MemoryAccount& base = reference->use.peak;
    std::vector<std::string> row = {arm.arm, reference->arm,
                                    change_cell(peak.allocated_bytes() - base.allocated_bytes())};
    for (const MemoryOwner owner : kColumns) {
      row.push_back(change_cell(bytes_of(peak.by_owner, owner) - bytes_of(base.by_owner, owner)));
    }
    row.push_back(change_cell(peak.cache_slack_bytes(), base.cache_slack_bytes()));
    row.push_back(
        change_cell(arm.use.driver_used_peak_bytes, reference->use.driver_used_peak_bytes));
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

Table memory_module_table(const MemoryAccount& account, std::size_t max_rows) {
  Table table{.columns = {{"module"}, {"bytes", Align::kRight}}};
  add_owner_columns(table);
  std::map<std::string, OwnerBytes> kinds;
  for (const ModuleMemory& module : account.modules) {
    OwnerBytes& bytes = kinds[module_kind(module.module)];
    for (std::size_t i = 0; i < kNumMemoryOwners; ++i) bytes[i] += module.by_owner[i];
  }
  std::vector<std::pair<std::string, OwnerBytes>> rows(kinds.begin(), kinds.end());
  std::ranges::stable_sort(rows, std::greater(),
                           [](const auto& row) { return sum_of(row.second); });
  if (rows.size() > max_rows) {
    OwnerBytes rest = {};
    for (std::size_t r = max_rows; r < rows.size(); ++r) {
      for (std::size_t i = 0; i < kNumMemoryOwners; ++i) rest[i] += rows[r].second[i];
    }
    const std::size_t num_rest = rows.size() - max_rows;
    rows.resize(max_rows);
    rows.emplace_back(fmt::format("{} others", num_rest), rest);
  }
  for (const auto& [module, bytes] : rows) {
    std::vector<std::string> row = {module, bytes_cell(sum_of(bytes))};
    add_owner_cells(bytes, row);
    table.rows.push_back(std::move(row));
  }
  drop_absent_columns(table);
  return table;
}

std::vector<std::string> memory_warnings(std::span<const MemoryArm> arms) {
  std::vector<std::string> warnings;
  for (const MemoryArm& arm : arms) {
    const MemoryUse& use = arm.use;
    if (use.has_lost_data || use.num_unmatched_frees > 0 || use.num_reused_addresses > 0 ||
        use.num_invalid_rows > 0) {
      warnings.push_back(
          fmt::format("{}: its account may be off: {} frees of unknown memory, {} frees not seen, "
                      "{} invalid rows{}",
                      arm.arm, format_count(use.num_unmatched_frees),
                      format_count(use.num_reused_addresses), format_count(use.num_invalid_rows),
                      use.has_lost_data ? ", and the recorder missed something" : ""));
    }
  }
  return warnings;
}

}  // namespace steplens
