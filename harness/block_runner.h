#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/ahead_processes.h"
#include "harness/bundle_writer.h"
#include "harness/ranks/launch.h"
#include "harness/run_site.h"
#include "harness/step_counts.h"

namespace steplens {

/// One block to run.
struct BlockTask {
  const Arm* arm = nullptr;
  BlockKind kind = BlockKind::kThroughput;
  int round_index = -1;
  StepCounts counts;                                // Of this arm.
  nlohmann::json facts = nlohmann::json::object();  // Of the machine before it; into process.json.
};

/// What became of it. `entry` and `record` are empty if the user interrupted it: nothing was
/// published then.
struct BlockOutcome {
  bool is_interrupted = false;
  BlockEntry entry;
  BlockRecord record;
};

/// What all blocks of a run have in common.
struct BlockSettings {
  std::vector<std::string> worker_command;
  std::map<std::string, std::vector<std::string>> commands;  // Maps external arm to its command.
  std::filesystem::path data_path;
  std::string device_id;  // GPU UUID; empty on a CPU.
  RankLauncher launcher;  // For blocks of several ranks.
  double timeout_s = 600;
  double origin_unix_s = 0;  // When the matrix began.
  /// Processes are started before their block (AheadProcesses): external programs that can wait
  /// before their round; on a GPU also the next worker, while this block starts. Not on a CPU,
  /// whose cores are what is measured. Ranks are started so by our own launcher alone.
  bool starts_ahead = false;
  bool keeps_logs = false;  // output.log in each block's folder; it may name this machine.
};

/// Runs blocks: a fresh process each, into a temporary folder that is published when it is whole.
class BlockRunner {
 public:
  /// The references must outlive it.
  BlockRunner(BundleWriter& writer, const RunSite& site, BlockSettings settings);

  /// Runs one block to its end, however it ends. A process that died, ran out of time, or wrote
  /// nothing usable gets a block.json from us that says how. ConfigError if the bundle cannot be
  /// written.
  BlockOutcome run(const BlockTask& task);

  /// Starts the programs of those of `arms` that are external and can wait, all at once, and
  /// returns when they have loaded what they need: a block of theirs then begins at once, and
  /// nothing loads while another is measured.
  void start_ahead(std::span<const Arm* const> arms);
  /// How long the last call of it took.
  double load_s() const { return load_s_; }

  const BlockSettings& settings() const { return settings_; }

 private:
  void add_device(ProcessSpec& spec) const;
  BlockConfig config_of(const BlockTask& task, const std::filesystem::path& folder) const;
  BlockOutcome run_in(const BlockTask& task, const std::filesystem::path& folder);
  ProcessRecord process_record(const BlockTask& task, const ProcessResult& process,
                               double start_s) const;

  ProcessResult run_process(const ProcessSpec& spec, const BlockConfig& config);
  ProcessResult run_now(const ProcessSpec& spec, int world_size);
  std::vector<ProcessSpec> processes_of(const ProcessSpec& spec, int world_size) const;

  BundleWriter& writer_;
  const RunSite& site_;
  BlockSettings settings_;
  AheadProcesses ahead_;
  double load_s_ = 0;
};

/// What a block counts as.
struct BlockJudgement {
  BlockRecord record;
  bool is_ours = false;  // Not as the process left it: this is to be written in its place.
};

/// Judges a block whose process ended as `process` says, with `block_json` as it left it (or not).
/// `config` is what it was told. A throughput block with a clock_gap is invalid: it is run again.
BlockJudgement judge_block(const BlockConfig& config, const ProcessResult& process,
                           const std::filesystem::path& block_json);

/// The same of a block of several ranks, whose progress and block.rank*.json lie in the folder of
/// `block_json`. The reason names the rank that broke or held up the block; status and reason are
/// those of the rank's own record if it left one.
BlockJudgement judge_ranks(const BlockConfig& config, const ProcessResult& process,
                           const std::filesystem::path& block_json);

}  // namespace steplens
