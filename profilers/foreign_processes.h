#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "harness/machine.h"
#include "profilers/nvml_abi.h"

namespace steplens {

/// What NVML and /proc say about who uses a GPU.
struct GpuUsers {
  std::vector<NvmlProcess> compute;
  std::vector<NvmlProcess> graphics;              // Only their memory counts: a desktop is no load.
  std::optional<std::int64_t> memory_used_bytes;  // Of the GPU, by everybody.
};

/// More than an idle driver holds beyond what it reserves, less than a program with a model takes.
inline constexpr std::int64_t kForeignMemoryBytes = std::int64_t{300} << 20;

/// Compute processes whose pid is visible and not in `own_pids`. In a container the driver may
/// leave rows out, give pid 0, or give pids of the host, which nobody here has: such users show
/// only by their memory. If the GPU holds over 300 MiB more than all rows with a visible pid say,
/// there is one more ForeignProcess, with pid 0 and that memory.
std::vector<ForeignProcess> foreign_processes_of(const GpuUsers& users,
                                                 const std::set<std::int64_t>& own_pids,
                                                 const std::set<std::int64_t>& visible_pids);

}  // namespace steplens
