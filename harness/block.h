#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/run_config.h"

namespace steplens {

/// Version of block configs, block.json, manifest.json and results.json. A reader refuses a newer
/// one by name and opens every older one.
inline constexpr int kSchemaVersion = 1;

/// What a block is for. Kinds are never mixed in one block.
enum class BlockKind {
  kThroughput,  // No tracing at all. The only kind that enters an estimate.
  kPilot,  // Finds the warm-up and counts operators for the proof of effect; not used for rates.
  kSoak,   // Brings the machine to its working temperature; stored, not used.
  kTrace,  // Writes trace.slt beside block.json: every kernel of the measured steps.
  kGraphTrace,  // The same with one row a graph launch. Only where it is asked for.
  kMemory,      // Writes trace.slt too: who owns device memory. Nothing else is recorded.
  kCounters,    // A trace with the GPU's hardware counters over time beside the kernels.
};
std::string_view name_of(BlockKind kind);  // "throughput", "pilot", ..., "counters"
BlockKind block_kind_from_name(std::string_view name);
/// Beside the block.json of a traced block.
inline constexpr std::string_view kTraceFileName = "trace.slt";
/// In the folder of a block of several ranks, while they meet.
inline constexpr std::string_view kRendezvousFileName = "rendezvous.json";
/// Does libsteplens_inject.so record a block of this kind?
bool is_traced(BlockKind kind);
/// Does a block of this kind leave a trace.slt? It explains its arm and decides nothing about it.
bool writes_trace(BlockKind kind);

/// How a block ended.
enum class BlockStatus { kOk, kOom, kNan, kCrash, kTimeout, kUnsupported, kInvalid };
std::string_view name_of(BlockStatus status);  // "ok", "oom", "nan", "crash", "timeout", ...
BlockStatus block_status_from_name(std::string_view name);

/// What a block executable is told, in the JSON file named by STEPLENS_BLOCK_CONFIG.
struct BlockConfig {
  RunConfig config;
  std::uint64_t seed = 1;  // Initial weights and data; the same for all arms.
  BlockKind kind = BlockKind::kThroughput;
  std::string arm;
  int round_index = -1;   // -1: outside the rounds (pilot, soak).
  std::string device_id;  // GPU UUID; empty on a CPU.
  int rank = 0;
  int world_size = 1;
  std::int64_t first_data_step_index = 0;
  std::int64_t num_warmup_steps = 0;  // For a pilot: the largest number to try.
  std::int64_t num_measured_steps = 0;
  double max_pilot_s = 60;  // A pilot stops its warm-up search after this.
  double timeout_s = 600;
  double collective_timeout_s = 120;    // A rank that waits longer for the others gives up.
  std::filesystem::path data_path;      // Token file (.bin); its JSON lies beside it.
  std::filesystem::path output_folder;  // Exists and is empty; block.json goes there.
};
nlohmann::json to_json(const BlockConfig& config);
/// ConfigError names the field that is missing or wrong.
BlockConfig block_config_from_json(const nlohmann::json& json);
/// Reads the file named by the environment variable STEPLENS_BLOCK_CONFIG.
BlockConfig block_config_from_environment();

/// Per-step numbers of one phase. All arrays have the same length, one entry an optimizer step.
struct StepArrays {
  std::vector<std::int64_t> step_wall_ns;
  std::vector<std::int64_t> step_gpu_ns;  // Event to event. Empty, and null in JSON, without a GPU.
  std::vector<std::int64_t> num_positions;
  std::vector<std::int64_t> num_valid_tokens;
  std::vector<std::int64_t> num_loss_tokens;
  std::vector<double> loss;
  std::vector<double> grad_norm;  // Before the clip.
  std::vector<double> lr;
  std::vector<std::int64_t> data_wait_ns;  // Host time spent waiting for the next batch.
  std::size_t size() const { return step_wall_ns.size(); }
};

/// One block.json: what happened, raw. Written once, never rewritten.
struct BlockRecord {
  int schema_version = kSchemaVersion;
  BlockStatus status = BlockStatus::kOk;
  std::string reason;  // Empty if ok; one sentence otherwise.
  BlockKind kind = BlockKind::kThroughput;
  std::string arm;
  int round_index = -1;
  int rank = 0;
  int world_size = 1;
  RunConfig config;
  std::string data_hash;           // Over the tokens consumed, in order.
  std::string data_set_hash;       // The same, free of order.
  std::string weights_hash;        // Initial weights.
  std::string final_weights_hash;  // After the last step.
  StepArrays warmup;
  StepArrays steps;
  nlohmann::json memory = nlohmann::json::object();   // peak_allocated_bytes, ... ; null = absent.
  nlohmann::json samples = nlohmann::json::object();  // NVML or /proc curves and shares.
  std::optional<std::int64_t> compile_ns;             // Graph capture, compile, autotune.
  std::int64_t measured_wall_ns = 0;  // One clock reading around all measured steps.
  nlohmann::json evidence = nlohmann::json::object();     // counters, see workloads/evidence.h.
  nlohmann::json environment = nlohmann::json::object();  // Versions, device, driver, settings.
};
nlohmann::json to_json(const BlockRecord& record);
/// ConfigError names `source` (the file), the field and what is wrong with it; arrays of unequal
/// length and a newer schema are errors.
BlockRecord block_record_from_json(const nlohmann::json& json, std::string_view source);
BlockRecord read_block_record(const std::filesystem::path& path);

/// Total tokens / total wall time of the measured steps.
double valid_tokens_per_s(const BlockRecord& record);
double positions_per_s(const BlockRecord& record);
double loss_tokens_per_s(const BlockRecord& record);
/// Mean over the measured steps.
double mean_step_wall_ns(const BlockRecord& record);

}  // namespace steplens
