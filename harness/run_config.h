#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/flops.h"

namespace steplens {

enum class Device { kCpu, kCuda };
enum class Precision { kFp32, kTf32, kBf16, kFp16 };
enum class Attention { kMath, kMemEfficient, kFlash, kCudnn };
enum class Optimizer { kLoop, kForeach, kFused, kMultiTensor };
enum class Weights { kFp32, kBf16Master };  // Bf16Master: bf16 matrices, fp32 masters beside them.
enum class Operators { kAten, kFused };     // Whose kernels a part of the model runs.
enum class Gemm { kHeuristic, kTuned };     // Who chooses among cuBLAS's algorithms.
enum class Checkpoint { kOff, kFull };
enum class DataPath { kSync, kPrefetch, kPinned };
enum class Batching { kPacked, kPadded, kBucketed };
enum class Frozen { kNone, kEmbeddings };
enum class CommDtype { kFp32, kBf16, kFp16 };
enum class ReducerUse { kSeveralRanks, kAlways };
enum class Allocator { kDefault, kExpandableSegments };
enum class AccumulationHolds { kGlobalBatch, kMicroBatch };
enum class Instrumentation { kFull, kMinimal };
enum class Compile { kOff, kAoti };
enum class Tracing { kOff, kNull, kFull };  // Null: CUPTI records, and they are thrown away.

/// Everything that decides what a block computes. Printed whole into every block and report.
///
/// Every member is one independent key (`config_fields`), except `shape`, whose members are keys of
/// their own. What follows from them (micro-batch, tokens a step) is a function below, never
/// stored.
struct RunConfig {
  Device device = Device::kCpu;
  std::string model = "nano";            // Preset that `shape` came from.
  ModelShape shape;                      // L, d, H, Hkv, hd, f, V.
  std::string dataset = "torch-python";  // Name of the token file's corpus.
  std::int64_t sequence_length = 128;    // T: positions a row.
  std::int64_t global_batch_size = 8;  // Rows per optimizer step at accumulation 1, over all ranks.
  std::int64_t num_accumulation = 1;   // Micro-steps per optimizer step.
  AccumulationHolds accumulation_holds = AccumulationHolds::kGlobalBatch;
  std::int64_t world_size = 1;  // Ranks: processes that train one model, each on its share.
  bool no_sync = false;  // Gradients are reduced over the ranks once a step, not a micro-step.
  std::int64_t bucket_mb = 25;  // Gradients that one all-reduce carries, at most, in MiB.
  CommDtype comm_dtype = CommDtype::kFp32;  // Type in which gradients travel.
  bool overlap = true;  // All-reduces run during the backward pass, not after it.
  ReducerUse reducer = ReducerUse::kSeveralRanks;  // Always: gradients of one rank pass it too.

  Precision precision = Precision::kFp32;
  Attention attention = Attention::kFlash;
  Weights weights = Weights::kFp32;
  Optimizer optimizer = Optimizer::kForeach;
  Operators norm = Operators::kAten;       // RMSNorm with the residual add before it.
  Operators rope = Operators::kAten;       // Rotary embedding with the split of q, k and v.
  Operators mlp = Operators::kAten;        // SwiGLU between the MLP's matrix products.
  Operators loss = Operators::kAten;       // LM head and cross-entropy.
  std::int64_t num_loss_rows = 8192;       // Of whose logits loss=fused has at once; 0: all.
  Operators embedding = Operators::kAten;  // Backward pass of the embedding.
  Operators residual = Operators::kAten;   // Fused: products add the residual stream themselves.
  Gemm gemm = Gemm::kHeuristic;            // Algorithm of each matrix product.
  bool graph = false;                      // Whole step captured in one CUDA graph.
  Compile compile = Compile::kOff;         // Forward and backward as a package of AOTInductor.
  Checkpoint checkpoint = Checkpoint::kOff;
  DataPath data = DataPath::kPrefetch;
  Batching batching = Batching::kPacked;
  bool sync_every_micro_step = false;
  Frozen frozen = Frozen::kNone;
  Allocator allocator = Allocator::kDefault;
  Instrumentation instrumentation = Instrumentation::kFull;
  Tracing tracing = Tracing::kOff;
  std::int64_t injected_spin_ns = 0;  // Busy wait added to every step: a known slowdown to detect.

  std::int64_t num_threads = 1;          // Compute threads on the CPU.
  std::uint64_t seed = 1;                // Initial weights and choice of data.
  double learning_rate = 3e-4;           // Peak, reached at the end of the warm-up.
  double min_learning_rate_ratio = 0.1;  // Floor of the cosine, relative to the peak.
  std::int64_t num_lr_warmup_steps =
      100;                                // In optimizer steps. Shorter and the loss turns chaotic.
  std::int64_t num_lr_total_steps = 600;  // In optimizer steps.
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double max_grad_norm = 1.0;  // One clip per optimizer step, on the whole gradient.
  double norm_epsilon = 1e-5;
  double rope_base = 10000.0;
  double dropout = 0;  // Probability, of what a block's halves add to the residual stream.

  bool operator==(const RunConfig&) const = default;
};

/// One key of the config: what `--set key=value`, JSON and the single-variable check go by.
struct ConfigField {
  std::string_view name;  // CLI word and JSON key. Never renamed: old bundles use it.
  std::string_view summary;
  /// "math | mem_efficient | flash | cudnn" or "integer >= 1": printed by errors and by --help.
  std::string_view allowed;
  nlohmann::json (*get)(const RunConfig&);
  /// Throws ConfigError naming key, value and what is allowed; `config` is then unchanged.
  void (*set)(RunConfig&, const nlohmann::json& value);
};

/// All keys, in the order of the JSON.
std::span<const ConfigField> config_fields();

/// Returns nullptr if no key has that name.
const ConfigField* find_config_field(std::string_view name);

/// Sets one key from text, as `--set key=value` does. ConfigError for an unknown key names the
/// nearest one.
void set_config_field(RunConfig& config, std::string_view name, std::string_view text);

nlohmann::json to_json(const RunConfig& config);

/// ConfigError for unknown keys and wrong values. Keys that are missing keep their default: older
/// bundles lack newer keys.
RunConfig run_config_from_json(const nlohmann::json& json);

/// Names of the keys in which the two differ, in the order of `config_fields`.
std::vector<std::string> differing_fields(const RunConfig& a, const RunConfig& b);

/// Rows per optimizer step over all ranks: global_batch_size, times accumulation where the
/// micro-batch is what is held.
std::int64_t effective_global_batch_size(const RunConfig& config);

/// Rows of one micro-step on one rank: global = micro x accumulation x world.
std::int64_t micro_batch_size(const RunConfig& config);

/// Positions of one optimizer step when packed: effective global batch x sequence length.
std::int64_t positions_per_step(const RunConfig& config);

/// Whether gradients go through the Reducer: with several ranks, or because the config says so.
bool uses_reducer(const RunConfig& config);

/// Throws ConfigError for what can never run: batch 0, batch arithmetic that does not divide,
/// head_dim odd, heads that do not divide, sequence length 0. Says what is allowed.
void validate(const RunConfig& config);

/// "global 32 = micro 8 x accumulation 4 x world 1".
std::string batch_arithmetic(const RunConfig& config);

/// The name in `names` nearest to `name` by edit distance, or empty if none is near (more than
/// half of the letters differ).
std::string nearest_name(std::string_view name, std::span<const std::string_view> names);

std::string_view name_of(Device);
std::string_view name_of(Precision);
std::string_view name_of(Attention);
std::string_view name_of(Optimizer);
std::string_view name_of(Weights);
std::string_view name_of(Operators);
std::string_view name_of(Gemm);
std::string_view name_of(Checkpoint);
std::string_view name_of(DataPath);
std::string_view name_of(Batching);
std::string_view name_of(Frozen);
std::string_view name_of(CommDtype);
std::string_view name_of(Allocator);

}  // namespace steplens
