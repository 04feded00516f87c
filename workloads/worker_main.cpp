// steplens-worker: runs one block, as told by the JSON file named in STEPLENS_BLOCK_CONFIG, and
// writes block.json into the block's folder. Composition root: the workload and the samplers meet
// here.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/block.h"
#include "harness/build_info.h"
#include "harness/error.h"
#include "harness/files.h"
#include "profilers/block_sampler.h"
#include "workloads/run_block.h"

namespace {

constexpr std::string_view kHelp =
    "steplens-worker: runs one block of a matrix in a fresh process.\n"
    "\n"
    "`steplens matrix` starts it; to run one by hand:\n"
    "  STEPLENS_BLOCK_CONFIG=block_config.json steplens-worker\n"
    "writes block.json into the config's output_folder. `steplens run --help` makes such a "
    "config.\n"
    "\n"
    "Exit codes: 0 a block.json was written, whatever its status; 2 the config or data is wrong;\n"
    "3 the device failed.\n";

// Started ahead, with all libraries loaded by now, it waits here for the path of its block's
// config; nothing has touched the GPU yet. False if the scheduler ended instead.
bool wait_for_block() {
  if (std::getenv("STEPLENS_START_AHEAD") == nullptr) return true;
  std::string path;
  if (!std::getline(std::cin, path)) return false;
  ::setenv("STEPLENS_BLOCK_CONFIG", path.c_str(), 1);
  return true;
}

int run() {
  using namespace steplens;
  if (!wait_for_block()) return 0;
  const BlockConfig block = block_config_from_environment();
  const std::string gpu = block.config.device == Device::kCuda ? block.device_id : "";
  const auto sampler = make_block_sampler(gpu);
  BlockRecord record = run_block(block, *sampler);
  if (record.status == BlockStatus::kOk && is_throttled_by_hardware(record.samples)) {
    record.status = BlockStatus::kInvalid;
    record.reason = "the hardware slowed the GPU down during the measured steps";
  }
  const BuildInfo& build = build_info();
  record.environment["steplens_git_sha"] = build.git_sha;
  const std::string name =
      block.rank == 0 ? "block.json" : fmt::format("block.rank{}.json", block.rank);
  write_json_atomically(block.output_folder / name, to_json(record));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const std::string_view flag = argv[1];
    std::fputs(kHelp.data(), flag == "--help" || flag == "-h" ? stdout : stderr);
    return flag == "--help" || flag == "-h" ? 0 : 2;
  }
  try {
    return run();
  } catch (const steplens::ConfigError& error) {
    std::fprintf(stderr, "steplens-worker: %s\n", error.what());
    return 2;
  } catch (const steplens::DeviceError& error) {
    std::fprintf(stderr, "steplens-worker: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "steplens-worker: %s\n", error.what());
    return 3;
  }
}
