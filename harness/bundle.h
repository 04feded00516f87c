#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/block.h"
#include "harness/toggle.h"

namespace steplens {

/// One claim about the pilot's counters that proves an arm's toggle took effect.
struct ProofClaim {
  std::string counter;
  Claim claim = Claim::kPresent;

  bool operator==(const ProofClaim&) const = default;
};

/// One column of the matrix: a config to run, and what it is compared with.
struct Arm {
  std::string name;    // "baseline", "attention=flash", "aa-03", "torch-eager".
  std::string toggle;  // Empty for the baseline, A/A and external arms.
  std::string level;
  bool is_baseline = false;
  std::string reference;  // Name of the arm it is compared with; empty for the baseline.
  RunConfig config;
  Contract contract = Contract::kSameMaths;
  std::vector<std::string> command;      // External block executable; empty: steplens-worker.
  std::string not_applicable_reason;     // Not empty: listed, never run.
  bool is_single_variable = true;        // Exactly one key differs from the reference (A/A: none).
  std::vector<ProofClaim> proof_claims;  // Empty: nothing to check ("not_checked").
  bool is_users_program = false;  // Of --arms NAME=PATH: `command` has its file's name alone.
};

/// One round: every live arm once, in a drawn order.
struct RoundRecord {
  int index = 0;
  std::vector<std::string> order;  // Names of arms as they ran.
  bool is_complete = false;
  std::string dropped_reason;  // Not empty: the round is left out whole.
  std::string machine_id;      // GPU UUID, or CPU model: pairs never span two.
};

/// One block folder of the bundle.
struct BlockEntry {
  std::string folder;  // "0007-attention-flash", under blocks/.
  std::string arm;
  int round_index = -1;
  BlockKind kind = BlockKind::kThroughput;
  BlockStatus status = BlockStatus::kOk;
  std::string sha256;     // Of block.json.
  double start_s = 0;     // Since the matrix began (all sessions), from before the process start.
  double duration_s = 0;  // Process start to exit.
  bool is_superseded = false;  // Invalid and run again, or of a dropped round: stored, not used.
};

/// manifest.json: what was planned and what was done. Rewritten atomically after every block.
struct Manifest {
  int schema_version = kSchemaVersion;
  std::string steplens_version;
  std::string git_sha;
  bool is_dirty = false;
  std::string created_utc;  // ISO 8601.
  std::string title;
  RunConfig baseline;
  std::vector<Arm> arms;  // arms[0] is the baseline (A/A: all are).
  int num_aa = 0;         // > 0: A/A with that many comparisons.
  std::uint64_t seed = 1;
  int num_rounds_planned = 12;
  std::optional<double> until_halfwidth_ratio;
  double equivalence_ratio = 1.01;
  std::int64_t num_warmup_steps = 0;  // 0 until the pilots have run.
  std::int64_t num_measured_steps = 0;
  std::int64_t num_trace_steps = 0;  // Of the trace of each arm, after the rounds; 0: no traces.
  std::int64_t num_graph_trace_steps = 0;  // Of the trace of whole graphs of each arm; 0: none.
  std::int64_t num_memory_steps = 0;       // Of the memory block of each arm; 0: none.
  std::int64_t num_counter_steps = 0;      // Of the counters block of each arm; 0: none.
  std::vector<RoundRecord> rounds;
  std::vector<BlockEntry> blocks;
  std::string stop_reason;  // Empty while unfinished: "planned rounds done", "time limit: ...".
  int world_size = 1;
  std::string gpu_name;                                   // Empty on a CPU.
  nlohmann::json data = nlohmann::json::object();         // name, hash, counts of the token file.
  nlohmann::json environment = nlohmann::json::object();  // Machine as the scheduler saw it.
  nlohmann::json failed_arms = nlohmann::json::object();  // arm -> reason; they left later rounds.
  std::vector<std::string>
      notes;  // Thermal gate timeouts, foreign load allowed, machine changed, ...
};
nlohmann::json to_json(const Manifest& manifest);
Manifest manifest_from_json(const nlohmann::json& json, std::string_view source);

/// A bundle folder opened for reading: manifest and all blocks it lists, checked for existence
/// only.
struct Bundle {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<BlockRecord> blocks;  // Same order and length as manifest.blocks.
};
/// ConfigError names the file that is missing, damaged or newer than this program.
Bundle open_bundle(const std::filesystem::path& folder);

/// Path of the block.json of an entry.
std::filesystem::path block_path(const std::filesystem::path& bundle, const BlockEntry& entry);

/// Returns nullptr if there is no such arm.
const Arm* find_arm(const Manifest& manifest, std::string_view name);

}  // namespace steplens
