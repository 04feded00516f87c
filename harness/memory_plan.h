#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/run_config.h"

/// How much device memory a training step of this project's models needs, from the config alone.
///
/// The sizes are those of the tensors that the step keeps, read off the model's code, and held
/// against the memory accounts of measured runs (a test does so): within 0.2 % for the eager arms
/// of gpt2-124m on an H200, within 1 % for 14 shapes and arms of nano on a CPU. Fused operators and
/// bf16 weights are held against three captured steps that have all of them, of gpt2-124m and
/// llama-1b: within 0.6 %; each alone has not been measured.
///
/// Of a captured step the private pool's segments count whole. What they waste was derived from
/// eager steps alone, by a replay of their allocations in an empty pool (a test does so: within
/// 0.02 % of every pool measured), and no captured step was fitted to. Captured steps of gpt2-124m
/// at micro-batches of 8 and 32 then come out 0.4 to 0.7 % too low, since segments are rounded; a
/// replay with tensors scaled down says within 1.5 % at 1 to 4, within 4.5 % where it also
/// accumulates. Two terms are upper bounds: what a reducer's accumulating graph wastes (seen at a
/// micro-batch of 8, where the replay has it at 4 and 8 only: else up to 18 % too high), and
/// gradients sent in 16 bits (six blocks of one arm held half to all of it: up to 5 % too high).
/// Graphs without autocast have not been measured. Legend: N positions of a micro-batch, T sequence
/// length, L layers, d model width, H heads, Hkv key/value heads, hd head size, f FFN width, V
/// vocabulary, P parameters; s bytes of an activation (2 under autocast, else 4), r of an element
/// of the residual stream and w of a matrix's gradient (2 with bf16 weights, else 4).
namespace steplens {

/// What is allocated for one purpose at the high-water mark.
struct MemoryPart {
  std::string_view owner;   // As in memory accounts: "parameters", "activations", ...
  std::string_view module;  // "block/mlp", "loss"; empty where there is none.
  std::int64_t bytes = 0;
  std::string_view formula;  // In the letters above.
};

/// When the high-water mark is reached.
enum class PeakMoment : std::uint8_t {
  kLoss,        // The first operations of the backward pass: the gradient of the logits.
  kLastBlock,   // The backward pass of the last block, with all blocks' activations still there.
  kFirstBlock,  // That of the first block, with the gradients of all others.
  kOptimizer,   // Gradients, moments and the update's own temporaries.
};
std::string_view name_of(PeakMoment moment);  // "loss", "last_block", ...

struct MemoryPlan {
  std::vector<MemoryPart> parts;  // At the peak; sum to it.
  PeakMoment moment = PeakMoment::kLoss;
  /// What the caching allocator takes from the driver for it: fragments it cannot use included. An
  /// upper estimate, from the largest ratio seen: 1.31, with expandable segments 1.11; of a
  /// captured step with loss=fused 1.02 and a chunk of logits, within which three such steps lie.
  std::int64_t reserved_bytes = 0;
  std::int64_t context_bytes = 0;  // Of the driver beside it: context and library workspaces.

  std::int64_t peak_allocated_bytes() const;
  std::int64_t bytes_of(std::string_view owner) const;
  /// What the device must have.
  std::int64_t needed_bytes() const { return reserved_bytes + context_bytes; }
};

/// Why there is no prediction for a config: a setting whose memory is not modelled. Empty if there
/// is.
std::string why_not_predicted(const RunConfig& config);

/// ConfigError for a config that `validate` refuses, and with that reason.
MemoryPlan predict_memory(const RunConfig& config);

nlohmann::json to_json(const MemoryPlan& plan);

}  // namespace steplens
