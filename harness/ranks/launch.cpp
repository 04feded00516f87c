#include "harness/ranks/launch.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

fs::path in_path(const std::string& program) {
  const char* folders = std::getenv("PATH");
  std::istringstream stream(folders == nullptr ? "" : folders);
  for (std::string folder; std::getline(stream, folder, ':');) {
    const fs::path path = fs::path(folder) / program;
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

// Open MPI's settings for ranks on one host: shared memory, and nothing that looks for a network.
// A rank has a thread that computes and one that communicates, so no rank is bound to a core.
// Called by its whole path, mpirun would put its own folder before all of PATH, where an arm's
// python3 is looked for: hence --noprefix.
std::vector<std::string> mpirun_arguments(int world_size) {
  std::vector<std::string> arguments = {
      "-n", std::to_string(world_size), "--oversubscribe", "--noprefix", "--bind-to", "none"};
  const auto set = [&](const char* name, const char* value) {
    arguments.insert(arguments.end(), {"--mca", name, value});
  };
  set("pml", "ob1");
  set("btl", "self,vader");
  set("oob_tcp_if_include", "lo");
  set("plm", "isolated");
  set("mpi_yield_when_idle", "1");
  if (::geteuid() == 0) arguments.insert(arguments.begin(), "--allow-run-as-root");
  return arguments;
}

}  // namespace

RankLauncher find_rank_launcher(Device device, int world_size,
                                const std::vector<std::string>& gpu_uuids) {
  RankLauncher launcher;
  if (device == Device::kCpu) {
    launcher.mpirun = in_path("mpirun");
    if (launcher.mpirun.empty()) {
      throw ConfigError(
          fmt::format("ranks={}: ranks on CPUs exchange gradients over MPI, and there is no mpirun "
                      "in PATH; apt-get install openmpi-bin",
                      world_size));
    }
    return launcher;
  }
  if (std::ssize(gpu_uuids) < world_size) {
    throw ConfigError(fmt::format("ranks={}: NCCL takes one GPU a rank, and this machine has {}",
                                  world_size, gpu_uuids.size()));
  }
  launcher.gpu_uuids.assign(gpu_uuids.begin(), gpu_uuids.begin() + world_size);
  return launcher;
}

std::vector<ProcessSpec> rank_processes(const RankLauncher& launcher, const ProcessSpec& spec,
                                        int world_size) {
  std::vector<ProcessSpec> processes;
  if (!launcher.mpirun.empty()) {
    ProcessSpec process = spec;
    process.command = {launcher.mpirun.string()};
    const std::vector<std::string> arguments = mpirun_arguments(world_size);
    process.command.insert(process.command.end(), arguments.begin(), arguments.end());
    process.command.insert(process.command.end(), spec.command.begin(), spec.command.end());
    process.environment.emplace_back(kOwnLauncherVariable, "1");
    // mpirun asks its ranks to end, waits a second, and kills; then it needs time to end itself.
    process.grace_s = std::max(spec.grace_s, 5.0);
    processes.push_back(std::move(process));
    return processes;
  }
  for (int rank = 0; rank < world_size; ++rank) {
    ProcessSpec process = spec;
    const auto set = [&](const char* name, std::string value) {
      std::erase_if(process.environment, [&](const auto& pair) { return pair.first == name; });
      process.environment.emplace_back(name, std::move(value));
    };
    set("RANK", std::to_string(rank));
    set("LOCAL_RANK", std::to_string(rank));
    set("WORLD_SIZE", std::to_string(world_size));
    set("NCCL_SOCKET_IFNAME", "lo");
    set(kOwnLauncherVariable, "1");
    if (!launcher.gpu_uuids.empty()) {
      set("CUDA_VISIBLE_DEVICES", launcher.gpu_uuids[static_cast<std::size_t>(rank)]);
    }
    // The block's log is rank 0's; what another rank said last is in its reason.
    if (rank > 0) process.output_file.clear();
    processes.push_back(std::move(process));
  }
  return processes;
}

ProcessResult joint_result(const std::vector<ProcessResult>& results) {
  SL_CHECK(!results.empty());
  const auto severity = [](const ProcessResult& result) {
    switch (result.end) {
      case ProcessEnd::kNotStarted: return 5;
      case ProcessEnd::kSignaled: return 4;
      case ProcessEnd::kExited: return result.exit_code != 0 ? 3 : 0;
      case ProcessEnd::kTimeout: return 2;
      case ProcessEnd::kStopped: return 1;
    }
    return 0;
  };
  ProcessResult joint = *std::ranges::max_element(results, {}, severity);
  joint.user_s = joint.system_s = 0;
  joint.max_resident_bytes = 0;
  for (const ProcessResult& result : results) {
    joint.wall_s = std::max(joint.wall_s, result.wall_s);
    joint.user_s += result.user_s;
    joint.system_s += result.system_s;
    joint.max_resident_bytes += result.max_resident_bytes;
  }
  return joint;
}

}  // namespace steplens
