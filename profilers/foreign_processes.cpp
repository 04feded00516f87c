#include "profilers/foreign_processes.h"

#include <map>

namespace steplens {
namespace {

using MemoryOfPid = std::map<std::int64_t, std::optional<std::int64_t>>;

/// Adds rows with a visible pid. A process has one row a MIG instance: their memory is summed.
void add_rows(const std::vector<NvmlProcess>& rows, const std::set<std::int64_t>& visible_pids,
              MemoryOfPid& memory_of_pid) {
  for (const NvmlProcess& row : rows) {
    const std::int64_t pid = row.pid;
    if (pid == 0 || !visible_pids.contains(pid)) continue;
    const auto bytes = static_cast<std::int64_t>(row.used_bytes);
    std::optional<std::int64_t>& memory = memory_of_pid.try_emplace(pid, 0).first->second;
    if (row.used_bytes == kNvmlValueNotAvailable) {
      memory.reset();
    } else if (memory) {
      memory = *memory + bytes;
    }
  }
}

}  // namespace

std::vector<ForeignProcess> foreign_processes_of(const GpuUsers& users,
                                                 const std::set<std::int64_t>& own_pids,
                                                 const std::set<std::int64_t>& visible_pids) {
  MemoryOfPid compute;
  add_rows(users.compute, visible_pids, compute);
  // A process that draws and computes is in both lists, with the same memory.
  MemoryOfPid everybody;
  add_rows(users.graphics, visible_pids, everybody);
  for (const auto& [pid, memory_bytes] : compute) everybody[pid] = memory_bytes;

  std::vector<ForeignProcess> foreign;
  for (const auto& [pid, memory_bytes] : compute) {
    if (!own_pids.contains(pid)) foreign.push_back({.pid = pid, .memory_bytes = memory_bytes});
  }

  if (!users.memory_used_bytes) return foreign;
  std::int64_t unexplained_bytes = *users.memory_used_bytes;
  for (const auto& [pid, memory_bytes] : everybody) {
    // The remainder could be this process's own.
    if (!memory_bytes) return foreign;
    unexplained_bytes -= *memory_bytes;
  }
  if (unexplained_bytes > kForeignMemoryBytes) {
    foreign.push_back({.pid = 0, .memory_bytes = unexplained_bytes});
  }
  return foreign;
}

}  // namespace steplens
