#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/block.h"
#include "harness/process.h"

namespace steplens {

/// How the ranks of a block are started on this machine.
struct RankLauncher {
  /// Path of mpirun for ranks on CPUs, which exchange gradients over MPI; empty: they are started
  /// as processes of our own, one GPU each.
  std::filesystem::path mpirun;
  std::vector<std::string> gpu_uuids;  // By rank; empty on a CPU.
};

/// The launcher for `world_size` > 1 ranks. `gpu_uuids` are the GPUs of this machine, the measured
/// one first. ConfigError if there is no mpirun in PATH, or if there are fewer GPUs than ranks.
RankLauncher find_rank_launcher(Device device, int world_size,
                                const std::vector<std::string>& gpu_uuids);

/// The processes to run for a block of several ranks, from `spec`, which would start one: one
/// mpirun, or one process a rank. Sockets stay on the loopback interface.
std::vector<ProcessSpec> rank_processes(const RankLauncher& launcher, const ProcessSpec& spec,
                                        int world_size);

/// One end for all of `results`: that of the first process that ended otherwise than by our will,
/// else of the first that was stopped and its last lines; wall time of the longest, CPU times and
/// memory of all together.
ProcessResult joint_result(const std::vector<ProcessResult>& results);

/// Environment variable that tells a rank that Steplens's own launcher started it: it ends with its
/// parent.
inline constexpr const char* kOwnLauncherVariable = "STEPLENS_OWN_LAUNCHER";

}  // namespace steplens
