#include "harness/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/head_chunks.h"

namespace steplens {
namespace {

// cuBLAS keeps one workspace a handle and stream; forward and backward run on two threads, so two
// of 32 MiB on compute capability 9.0 (torch 2.11). Products by kernels/gemm have one more.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
constexpr std::int64_t kCublasBytes = 2 * kWorkspaceBytes;
// Driver-used minus reserved on an H200 (driver 580, CUDA 13.0): 821 to 837 MiB in all arms.
constexpr std::int64_t kContextBytes = std::int64_t{837} << 20;
// Reserved / allocated at the peak, the largest of 15 arms on an H200. Nearly all of it lies around
// whole logits and their fp32 copies.
constexpr double kSlackRatio = 1.31;
constexpr double kExpandableSlackRatio = 1.11;
// A captured step with logits in chunks; at most 1.034 in 210 blocks of published bundles.
constexpr double kCapturedSlackRatio = 1.04;
// The same on several ranks, beside a chunk that the eager steps before it leave.
constexpr double kCapturedRanksSlackRatio = 1.02;

// The sizes that all formulas speak of.
struct Sizes {
  std::int64_t N, T, L, d, H, f, V;
  std::int64_t qw, kw;  // Widths of queries and of keys.
  std::int64_t s;       // Bytes of an activation.
  std::int64_t r;       // Bytes of an element of the residual stream.
  std::int64_t w;       // Bytes of a matrix's element where it is used, and of its gradient.
  bool has_casts;       // Autocast copies weights and activations.
  bool is_cuda;

  explicit Sizes(const RunConfig& config)
      : N(micro_batch_size(config) * config.sequence_length),
        T(config.sequence_length),
        L(config.shape.num_layers),
        d(config.shape.d_model),
        H(config.shape.num_heads),
        f(config.shape.ffn_width),
        V(config.shape.vocab_size),
        qw(config.shape.num_heads * config.shape.head_dim),
        kw(config.shape.num_kv_heads * config.shape.head_dim),
        has_casts(config.precision == Precision::kBf16 || config.precision == Precision::kFp16),
        is_cuda(config.device == Device::kCuda) {
    s = has_casts ? 2 : 4;
    w = config.weights == Weights::kBf16Master ? 2 : 4;
    r = w;
  }
};

// Of elements that train, in fp32: masters and moments.
std::int64_t trained_bytes(const RunConfig& config) {
  const std::int64_t frozen =
      config.frozen == Frozen::kEmbeddings ? 4 * config.shape.vocab_size * config.shape.d_model : 0;
  return 4 * num_parameters(config.shape) - frozen;
}

// The weights of norms are fp32 and have no masters.
std::int64_t num_norm_weights(const Sizes& z) { return (2 * z.L + 1) * z.d; }

std::int64_t gradient_bytes(const RunConfig& config, const Sizes& z) {
  const std::int64_t norms = 4 * num_norm_weights(z);
  return (trained_bytes(config) - norms) / 4 * z.w + norms;
}

bool is_fused(Operators operators) { return operators == Operators::kFused; }

// ---- What one block keeps from its forward pass. ----

// Autocast's copies of the block's weights live as long as the backward pass needs them.
bool casts_weights(const Sizes& z) { return z.has_casts && z.w == 4; }
std::int64_t attention_casts(const Sizes& z) {
  return casts_weights(z) ? 2 * (z.d * (z.qw + 2 * z.kw) + z.qw * z.d) : 0;
}
std::int64_t mlp_casts(const Sizes& z) { return casts_weights(z) ? 6 * z.f * z.d : 0; }

std::int64_t attention_bytes(const RunConfig& config, const Sizes& z) {
  // The input of the projections, the attention's output, and the residual sum.
  std::int64_t bytes = z.N * (z.s * z.d + z.s * z.qw + z.r * z.d);
  // cos and sin as autocast copies them, for queries and for keys.
  if (z.has_casts && !is_fused(config.rope)) bytes += 4 * z.T * config.shape.head_dim * z.s;
  if (config.attention == Attention::kMath) {
    // Queries, keys and values in fp32, keys and values once a query head, and the softmax.
    bytes += z.N * (12 * z.qw + 4 * z.H * z.T);
  } else {
    // Values are a view, which keeps the whole product; rotated queries and keys, unless they are
    // rotated where they lie; log-sum-exp.
    const std::int64_t rotated = is_fused(config.rope) ? 0 : z.s * (z.qw + z.kw);
    bytes += z.N * (z.s * (z.qw + 2 * z.kw) + rotated + 4 * z.H);
  }
  return bytes + attention_casts(z);
}

// ATen keeps silu(gate) beside its product with up.
std::int64_t mlp_bytes(const RunConfig& config, const Sizes& z) {
  const std::int64_t num_widths = is_fused(config.mlp) ? 3 : 4;
  return z.N * (z.s * z.d + num_widths * z.s * z.f + z.r * z.d) + mlp_casts(z);
}

// ATen has no single operator for 16-bit rows and fp32 weights.
bool is_mixed_norm(const RunConfig& config, const Sizes& z) {
  return z.w == 2 && !is_fused(config.norm);
}

// A fused norm keeps the reciprocal deviation of each row; what it normalises is there anyway. On a
// CPU it is a chain of operators that keeps the normalised rows as well; so it is of 16-bit rows
// with fp32 weights, which keeps them in fp32 before and behind the division, and not as they came.
std::int64_t norm_bytes(const RunConfig& config, const Sizes& z) {
  if (is_mixed_norm(config, z)) return z.N * (4 + (4 + 4 - z.r) * z.d);
  return z.N * (z.is_cuda ? 4 : 4 + 4 * z.d);
}

// Held against h200-gpt2-124m-switches and h200-llama-1b-switches: rows of the last norm, in fp32
// and in the stream's type, that live until the loss is done.
std::int64_t last_norm_bytes(const RunConfig& config, const Sizes& z) {
  return is_mixed_norm(config, z) ? 8 * z.N * z.d : 0;
}

// ---- What the end of the model keeps. ----

std::int64_t head_bytes(const Sizes& z) {
  return z.N * z.s * z.d + (casts_weights(z) ? 2 * z.V * z.d : 0);
}

// Logits of log-softmax, their fp32 copy under autocast, and the gradient that begins the backward
// pass; without autocast the gradient before and behind the log-softmax.
std::int64_t loss_bytes(const Sizes& z) { return z.N * z.V * (z.has_casts ? 10 : 12); }

std::int64_t chunk_bytes(const RunConfig& config, const Sizes& z) {
  return z.s * head_chunks(z.N, config.num_loss_rows).rows_per_chunk * z.V;
}

// loss=fused: a chunk of logits, the gradients of the head's input and of its weight, which chunks
// sum in fp32, and a loss a position.
std::int64_t fused_loss_bytes(const RunConfig& config, const Sizes& z) {
  const std::int64_t sum_bytes = config.num_loss_rows == 0 ? z.w : 4;
  return chunk_bytes(config, z) + z.N * z.s * z.d + sum_bytes * z.V * z.d + 4 * z.N;
}

// ---- Temporaries of a block's backward pass, beyond what it kept. ----

// In the MLP: gradients of both halves, while the product is gone already.
std::int64_t mlp_backward_bytes(const Sizes& z) { return z.N * 2 * z.s * z.f; }

// In unfused attention, with the MLP's activations gone: the softmax's gradient before and behind
// it. Fused kernels only write the gradients of queries, keys and values.
std::int64_t attention_backward_bytes(const RunConfig& config, const Sizes& z) {
  const std::int64_t bytes = config.attention == Attention::kMath
                                 ? z.N * 2 * 4 * z.H * z.T
                                 : z.N * 2 * z.s * (z.qw + 2 * z.kw);
  return bytes - mlp_bytes(config, z);
}

std::int64_t block_backward_bytes(const RunConfig& config, const Sizes& z) {
  return std::max(mlp_backward_bytes(z), attention_backward_bytes(config, z));
}

class Predictor {
 public:
  explicit Predictor(const RunConfig& config) : config_(config), z_(config) {}

  MemoryPlan predict() {
    MemoryPlan best;
    for (const PeakMoment moment : {PeakMoment::kLoss, PeakMoment::kLastBlock,
                                    PeakMoment::kFirstBlock, PeakMoment::kOptimizer}) {
      MemoryPlan plan = at(moment);
      if (plan.peak_allocated_bytes() > best.peak_allocated_bytes()) best = std::move(plan);
    }
    best.reserved_bytes = reserved_bytes(static_cast<double>(best.peak_allocated_bytes()));
    best.context_bytes = z_.is_cuda ? kContextBytes : 0;
    return best;
  }

 private:
  std::int64_t reserved_bytes(double peak_bytes) const {
    if (!z_.is_cuda) return std::llround(peak_bytes);
    if (config_.graph && is_fused(config_.loss)) {
      return uses_reducer(config_)
                 ? std::llround(kCapturedRanksSlackRatio * peak_bytes) + chunk_bytes(config_, z_)
                 : std::llround(kCapturedSlackRatio * peak_bytes);
    }
    return std::llround(peak_bytes * (config_.allocator == Allocator::kExpandableSegments
                                          ? kExpandableSlackRatio
                                          : kSlackRatio));
  }

  MemoryPlan at(PeakMoment moment) {
    plan_ = {.parts = {}, .moment = moment};
    add("parameters", "", 4 * num_parameters(config_.shape), "4 P");
    if (z_.w == 2) {
      add("parameters", "", 2 * (num_parameters(config_.shape) - num_norm_weights(z_)),
          "2 P of matrices: bf16 beside the masters");
    }
    add("optimizer_state", "", 2 * trained_bytes(config_), "2 * 4 P trained");
    add_data();
    if (z_.is_cuda) add("workspace", "", kCublasBytes, "cuBLAS: 2 * 32 MiB");
    if (config_.gemm == Gemm::kTuned || is_fused(config_.residual)) {
      add("workspace", "", kWorkspaceBytes, "cuBLASLt: 32 MiB");
    }
    if (moment == PeakMoment::kOptimizer) {
      add("gradients", "", gradient_bytes(config_, z_), "w P trained");
      add_update();
    } else {
      add_gradients(moment);
      add_activations(moment);
    }
    return std::move(plan_);
  }

  void add(std::string_view owner, std::string_view module, std::int64_t bytes,
           std::string_view formula) {
    if (bytes > 0) plan_.parts.push_back({owner, module, bytes, formula});
  }

  // Tokens and targets of a whole step, int64. On a GPU a loader that pins works two steps ahead;
  // on a CPU a prefetching one has four steps in memory.
  void add_data() {
    const std::int64_t step_bytes = 16 * config_.num_accumulation * z_.N;
    const bool is_ahead = config_.data == DataPath::kPinned;
    const bool is_queued = !z_.is_cuda && config_.data == DataPath::kPrefetch;
    add("data", "",
        (is_ahead    ? 3
         : is_queued ? 4
                     : 1) *
            step_bytes,
        "16 bytes a position of the steps that lie ready");
  }

  // Kept from micro-step to micro-step; those of ranks are views of the reducer's buckets. A graph
  // that does neither captures them in its pool, where its activations were.
  void add_gradients(PeakMoment moment) {
    const bool are_kept = config_.num_accumulation > 1 || uses_reducer(config_);
    if (are_kept) {
      add("gradients", "", gradient_bytes(config_, z_), "w P trained");
    } else if (moment == PeakMoment::kLastBlock) {
      add("gradients", "head", z_.w * z_.V * z_.d, "w V d");
      add("gradients", "block/mlp", z_.w * z_.f * z_.d, "w f d: the last matrix of the block");
    } else if (moment == PeakMoment::kFirstBlock) {
      // All but those of the embedding and of the block itself, its last matrix aside.
      const std::int64_t embedding = config_.frozen == Frozen::kEmbeddings ? 0 : z_.V * z_.d;
      const std::int64_t block = z_.d * (z_.qw + 2 * z_.kw) + z_.qw * z_.d + 2 * z_.f * z_.d;
      add("gradients", "", gradient_bytes(config_, z_) - z_.w * (embedding + block),
          "w (P trained - V d - the first block's)");
    }
  }

  void add_activations(PeakMoment moment) {
    const bool is_checkpointed = config_.checkpoint == Checkpoint::kFull;
    const bool is_in_block = moment != PeakMoment::kLoss;
    add("activations", "embedding", z_.r * z_.N * z_.d, "r N d");
    if (is_checkpointed && moment != PeakMoment::kFirstBlock) {
      const std::int64_t num_outputs = is_in_block ? z_.L - 1 : z_.L;
      add("activations", "block", num_outputs * z_.r * z_.N * z_.d, "r N d: each block's output");
    }
    // A checkpointed block has its activations again while its backward pass runs; of the others
    // the first block's backward pass comes when all the rest is gone.
    const std::int64_t num_blocks = moment == PeakMoment::kFirstBlock ? 1
                                    : is_checkpointed                 ? (is_in_block ? 1 : 0)
                                                                      : z_.L;
    add("activations", "block/attention", num_blocks * attention_bytes(config_, z_),
        config_.attention == Attention::kMath
            ? "a block: N (s d + s H hd + r d + 12 H hd + 4 H T) + casts"
        : is_fused(config_.rope)
            ? "a block: N (s d + s H hd + r d + s (H + 2 Hkv) hd + 4 H) + casts"
            : "a block: N (s d + s H hd + r d + s (2 H + 3 Hkv) hd + 4 H) + casts");
    add("activations", "block/mlp", num_blocks * mlp_bytes(config_, z_),
        is_fused(config_.mlp) ? "a block: N (s d + 3 s f + r d) + casts"
                              : "a block: N (s d + 4 s f + r d) + casts");
    const bool is_mixed = is_mixed_norm(config_, z_);
    add("activations", "block/norm", num_blocks * 2 * norm_bytes(config_, z_),
        is_mixed ? "a block: 2 N (6 d + 4)" : "a block: 2 norms");
    if (moment == PeakMoment::kLoss) {
      add("activations", "norm", norm_bytes(config_, z_) + last_norm_bytes(config_, z_),
          is_mixed ? "N (6 d + 4) + 8 N d" : "one norm");
      add("activations", "head", head_bytes(z_), "N s d + the cast of V d");
      if (is_fused(config_.loss)) {
        add("activations", "loss", fused_loss_bytes(config_, z_),
            config_.num_loss_rows == 0 ? "s V N + s N d + w V d + 4 N"
                                       : "s V rows of a chunk + s N d + 4 V d + 4 N");
      } else {
        add("activations", "loss", loss_bytes(z_),
            z_.has_casts ? "N V (2 + 4 + 4)" : "N V (4 + 4 + 4)");
      }
    } else {
      // Elsewhere it takes the place of what the block above has given back.
      const bool has_own_gradient = is_checkpointed || moment == PeakMoment::kFirstBlock;
      add("activations", "backward",
          block_backward_bytes(config_, z_) + (has_own_gradient ? z_.r * z_.N * z_.d : 0),
          config_.attention == Attention::kMath ? "N max(2 s f, 8 H T - the MLP's)" : "N 2 s f");
    }
    if (config_.graph && moment == PeakMoment::kLoss) add_graph_pool();
  }

  // A pool holds the segments that its allocator took: blocks in them that nothing could use again
  // beside the tensors that are live at the peak. tests/harness/graph_pool_test.cpp replays eager
  // steps by the allocator's rules and finds these.
  void add_graph_pool() {
    // Chunks of logits have one size and follow each other in one place.
    if (!is_fused(config_.loss)) add_graph_pool_of_logits();
    if (uses_reducer(config_) && config_.comm_dtype != CommDtype::kFp32) {
      add("graph_pool", "buckets", 2 * trained_bytes(config_),
          "at most 8 P trained: there and back in 16 bits; half of it at least");
    }
  }
  void add_graph_pool_of_logits() {
    const std::int64_t copy_bytes = z_.N * z_.V * z_.s;
    if (z_.has_casts) {
      add("graph_pool", "loss", copy_bytes,
          "2 N V: the first logits, too small for their fp32 copy");
    }
    if (config_.num_accumulation > 1) {
      // Gradients that the first micro-step leaves in the pool lie where that copy was; without
      // them smaller tensors may.
      const std::int64_t fp32_bytes = 4 * z_.N * z_.V;
      const std::int64_t in_pool = uses_reducer(config_) ? 0 : trained_bytes(config_);
      add("graph_pool", "loss", std::max<std::int64_t>(fp32_bytes - in_pool, 0),
          uses_reducer(config_) ? "at most 4 N V: where another micro-step's fp32 logits were"
                                : "4 N V - the gradients, which lie where the fp32 logits were");
    }
  }

  // foreach makes a list of denominators beside all parameters; the loop two tensors of the largest
  // parameter; the fused update nothing but 16-bit gradients in fp32.
  void add_update() {
    const std::int64_t largest = 4 * z_.V * z_.d;
    switch (config_.optimizer) {
      case Optimizer::kForeach:
        add("workspace", "optimizer", trained_bytes(config_), "4 P trained: denominators");
        break;
      case Optimizer::kLoop:
        add("workspace", "optimizer", 2 * largest, "2 * the largest parameter");
        break;
      case Optimizer::kFused:
        if (z_.w == 2) {
          add("workspace", "optimizer", trained_bytes(config_) - 4 * num_norm_weights(z_),
              "4 P trained of matrices: gradients in fp32");
        }
        break;
      case Optimizer::kMultiTensor: break;
    }
  }

  const RunConfig& config_;
  Sizes z_;
  MemoryPlan plan_;
};

}  // namespace

std::string_view name_of(PeakMoment moment) {
  switch (moment) {
    case PeakMoment::kLoss: return "loss";
    case PeakMoment::kLastBlock: return "last_block";
    case PeakMoment::kFirstBlock: return "first_block";
    case PeakMoment::kOptimizer: return "optimizer";
  }
  return "";
}

std::int64_t MemoryPlan::peak_allocated_bytes() const {
  std::int64_t total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

std::int64_t MemoryPlan::bytes_of(std::string_view owner) const {
  std::int64_t total = 0;
  for (const MemoryPart& part : parts) {
    if (part.owner == owner) total += part.bytes;
  }
  return total;
}

std::string why_not_predicted(const RunConfig& config) {
  // What keeps, adds or saves tensors that no account or peak has been held against yet.
  if (config.compile != Compile::kOff) {
    return "compile=aoti: what a package keeps is Inductor's choice; predictions are for "
           "compile=off";
  }
  if (config.weights == Weights::kBf16Master &&
      (config.optimizer == Optimizer::kLoop || config.optimizer == Optimizer::kForeach)) {
    return fmt::format(
        "optimizer={}: with weights=bf16_master its memory is not modelled yet; predictions are "
        "for optimizer=fused and multi_tensor",
        name_of(config.optimizer));
  }
  // Eager all-reduces of llama-1b held up to 2.9 bytes a parameter on their way, those of a graph
  // all that its pool has.
  if (uses_reducer(config) && config.comm_dtype != CommDtype::kFp32 &&
      (!config.graph || config.weights == Weights::kBf16Master)) {
    return fmt::format(
        "comm_dtype={}: gradients on their way are modelled for graph=on and "
        "weights=fp32 only",
        name_of(config.comm_dtype));
  }
  if (is_fused(config.rope) && config.attention == Attention::kMath) {
    return "attention=math: with rope=fused its memory is not modelled yet";
  }
  return "";
}

MemoryPlan predict_memory(const RunConfig& config) {
  validate(config);
  if (const std::string reason = why_not_predicted(config); !reason.empty()) {
    throw ConfigError(reason);
  }
  return Predictor(config).predict();
}

nlohmann::json to_json(const MemoryPlan& plan) {
  nlohmann::json parts = nlohmann::json::array();
  for (const MemoryPart& part : plan.parts) {
    parts.push_back({{"owner", part.owner},
                     {"module", part.module},
                     {"bytes", part.bytes},
                     {"formula", part.formula}});
  }
  return {{"peak_allocated_bytes", plan.peak_allocated_bytes()},
          {"reserved_bytes", plan.reserved_bytes},
          {"context_bytes", plan.context_bytes},
          {"moment", name_of(plan.moment)},
          {"parts", std::move(parts)}};
}

}  // namespace steplens
