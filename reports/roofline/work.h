#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run_config.h"
#include "harness/trace/trace.h"

/// The arithmetic and the memory traffic that the model's step needs, from its config alone: what
/// measured kernels are held against. Legend as in harness/flops.h; B rows and N = B T positions of
/// one micro-step on one rank, e bytes an element: 2 under bf16 and fp16, else 4.
namespace steplens {

/// What one operation needs at least.
struct Work {
  double flops = 0;
  double bytes = 0;      // Each operand read once, each result written once.
  bool is_fp32 = false;  // Although the config says a shorter type: its peak is not the config's.

  Work& operator+=(const Work& other) {
    flops += other.flops;
    bytes += other.bytes;
    is_fp32 = is_fp32 || other.is_fp32;
    return *this;
  }
  bool operator==(const Work&) const = default;
};

/// x (N, in) times a weight: 2 N in out FLOPs. Its two gradients need the same each.
Work matmul_work(std::int64_t num_rows, std::int64_t in, std::int64_t out,
                 std::int64_t element_bytes);

/// Of one micro-step, in the module whose kind is `module_kind` ("block/attention", "block/mlp",
/// "head"), the matrix products in the order in which a phase launches them; empty where there are
/// none. Backward, each product of the forward pass comes twice, in reverse order. With full
/// checkpointing the blocks' forward products come before them once more. attention=math adds the
/// two products of the whole square of scores, which PyTorch computes in fp32.
std::vector<Work> matmuls_of(const RunConfig& config, std::string_view module_kind, Phase phase);

/// Of one layer and micro-step, what the fused attention kernels of a phase need: of the lower
/// triangle forward 2 H hd T^2 a row, backward twice that (flash computes a fifth product again,
/// which is not counted). Bytes: q, k, v read and the output written; backward five operands read
/// and three written. Zero for attention=math and other phases.
Work attention_work(const RunConfig& config, Phase phase);

/// A part of the step that moves memory and computes little.
struct BandwidthPart {
  std::string label;        // "norms, forward"
  std::string module_kind;  // "block/norm"; empty: the whole phase.
  Phase phase = Phase::kNone;
  double bytes = 0;  // Of a whole optimizer step on one rank.
  std::string_view formula;
};

/// The parts whose least traffic follows from the config: norms, loss, clip and optimizer. The
/// residual stream and the optimizer's state are fp32. Left out is what a switch merges with
/// something else (norm, loss and clip in fused kernels) or keeps in another type (weights).
std::vector<BandwidthPart> memory_parts_of(const RunConfig& config);

/// Why nothing of this follows from the config; empty if it does.
std::string why_not_derived(const RunConfig& config);

}  // namespace steplens
