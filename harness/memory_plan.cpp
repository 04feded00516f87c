#include "harness/memory_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

// cuBLAS keeps one workspace a handle and stream; forward and backward run on two threads, so two
// of 32 MiB on compute capability 9.0 (torch 2.11).
constexpr std::int64_t kCublasBytes = 2 * (std::int64_t{32} << 20);
// Driver-used minus reserved on an H200 (driver 580, CUDA 13.0): 821 to 837 MiB in all arms.
constexpr std::int64_t kContextBytes = std::int64_t{837} << 20;
// Reserved / allocated at the peak, the largest of 15 arms on an H200.
constexpr double kSlackRatio = 1.31;
constexpr double kExpandableSlackRatio = 1.11;

// The sizes that all formulas speak of.
struct Sizes {
  std::int64_t N, T, L, d, H, f, V;
  std::int64_t qw, kw;  // Widths of queries and of keys.
  std::int64_t s;       // Bytes of an activation.
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
  }
};

std::int64_t parameter_bytes(const RunConfig& config) { return 4 * num_parameters(config.shape); }

std::int64_t trained_bytes(const RunConfig& config) {
  const std::int64_t frozen =
      config.frozen == Frozen::kEmbeddings ? 4 * config.shape.vocab_size * config.shape.d_model : 0;
  return parameter_bytes(config) - frozen;
}

// ---- What one block keeps from its forward pass. ----

// Autocast's copies of the block's weights live as long as the backward pass needs them.
std::int64_t attention_casts(const Sizes& z) {
  return z.has_casts ? 2 * (z.d * (z.qw + 2 * z.kw) + z.qw * z.d) : 0;
}
std::int64_t mlp_casts(const Sizes& z) { return z.has_casts ? 6 * z.f * z.d : 0; }

std::int64_t attention_bytes(const RunConfig& config, const Sizes& z) {
  // The input of the projections, the attention's output, and the residual sum, which is fp32.
  std::int64_t bytes = z.N * (z.s * z.d + z.s * z.qw + 4 * z.d);
  // cos and sin as autocast copies them, for queries and for keys.
  if (z.has_casts) bytes += 4 * z.T * config.shape.head_dim * z.s;
  if (config.attention == Attention::kMath) {
    // Queries, keys and values in fp32, keys and values once a query head, and the softmax.
    bytes += z.N * (12 * z.qw + 4 * z.H * z.T);
  } else {
    // Values are a view, which keeps the whole product; rotated queries and keys; log-sum-exp.
    bytes += z.N * (z.s * (z.qw + 2 * z.kw) + z.s * (z.qw + z.kw) + 4 * z.H);
  }
  return bytes + attention_casts(z);
}

std::int64_t mlp_bytes(const Sizes& z) {
  return z.N * (z.s * z.d + z.s * 2 * z.f + 2 * z.s * z.f + 4 * z.d) + mlp_casts(z);
}

// A fused norm keeps the reciprocal deviation of each row; what it normalises is there anyway. On a
// CPU it is a chain of operators that keeps the normalised rows as well.
std::int64_t norm_bytes(const Sizes& z) { return z.N * (z.is_cuda ? 4 : 4 + 4 * z.d); }

// ---- What the end of the model keeps. ----

std::int64_t head_bytes(const Sizes& z) {
  return z.N * z.s * z.d + (z.has_casts ? 2 * z.V * z.d : 0);
}

// Logits of log-softmax, their fp32 copy under autocast, and the gradient that begins the backward
// pass; without autocast the gradient before and behind the log-softmax.
std::int64_t loss_bytes(const Sizes& z) { return z.N * z.V * (z.has_casts ? 10 : 12); }

// ---- Temporaries of a block's backward pass, beyond what it kept. ----

// In the MLP: gradients of both halves, while the product is gone already.
std::int64_t mlp_backward_bytes(const Sizes& z) { return z.N * 2 * z.s * z.f; }

// In unfused attention, with the MLP's activations gone: the softmax's gradient before and behind
// it. Fused kernels only write the gradients of queries, keys and values.
std::int64_t attention_backward_bytes(const RunConfig& config, const Sizes& z) {
  const std::int64_t bytes = config.attention == Attention::kMath
                                 ? z.N * 2 * 4 * z.H * z.T
                                 : z.N * 2 * z.s * (z.qw + 2 * z.kw);
  return bytes - mlp_bytes(z);
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
    const double ratio = !z_.is_cuda ? 1
                         : config_.allocator == Allocator::kExpandableSegments
                             ? kExpandableSlackRatio
                             : kSlackRatio;
    best.reserved_bytes =
        static_cast<std::int64_t>(ratio * static_cast<double>(best.peak_allocated_bytes()));
    best.context_bytes = z_.is_cuda ? kContextBytes : 0;
    return best;
  }

 private:
  MemoryPlan at(PeakMoment moment) {
    plan_ = {.parts = {}, .moment = moment};
    add("parameters", "", parameter_bytes(config_), "4 P");
    add("optimizer_state", "", 2 * trained_bytes(config_), "2 * 4 P trained");
    add_data();
    if (z_.is_cuda) add("workspace", "", kCublasBytes, "cuBLAS: 2 * 32 MiB");
    if (moment == PeakMoment::kOptimizer) {
      add("gradients", "", trained_bytes(config_), "4 P trained");
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
      add("gradients", "", trained_bytes(config_), "4 P trained");
    } else if (moment == PeakMoment::kLastBlock) {
      add("gradients", "head", 4 * z_.V * z_.d, "4 V d");
      add("gradients", "block/mlp", 4 * z_.f * z_.d, "4 f d: the last matrix of the block");
    } else if (moment == PeakMoment::kFirstBlock) {
      // All but those of the embedding and of the block itself, its last matrix aside.
      const std::int64_t embedding = config_.frozen == Frozen::kEmbeddings ? 0 : 4 * z_.V * z_.d;
      const std::int64_t block = 4 * (z_.d * (z_.qw + 2 * z_.kw) + z_.qw * z_.d + 2 * z_.f * z_.d);
      add("gradients", "", trained_bytes(config_) - embedding - block,
          "4 (P trained - V d - the first block's)");
    }
  }

  void add_activations(PeakMoment moment) {
    const bool is_checkpointed = config_.checkpoint == Checkpoint::kFull;
    const bool is_in_block = moment != PeakMoment::kLoss;
    add("activations", "embedding", 4 * z_.N * z_.d, "4 N d");
    if (is_checkpointed && moment != PeakMoment::kFirstBlock) {
      const std::int64_t num_outputs = is_in_block ? z_.L - 1 : z_.L;
      add("activations", "block", num_outputs * 4 * z_.N * z_.d, "4 N d: each block's output");
    }
    // A checkpointed block has its activations again while its backward pass runs; of the others
    // the first block's backward pass comes when all the rest is gone.
    const std::int64_t num_blocks = moment == PeakMoment::kFirstBlock ? 1
                                    : is_checkpointed                 ? (is_in_block ? 1 : 0)
                                                                      : z_.L;
    add("activations", "block/attention", num_blocks * attention_bytes(config_, z_),
        config_.attention == Attention::kMath
            ? "a block: N (s d + s H hd + 4 d + 12 H hd + 4 H T) + casts"
            : "a block: N (s d + s H hd + 4 d + s (2 H + 3 Hkv) hd + 4 H) + casts");
    add("activations", "block/mlp", num_blocks * mlp_bytes(z_),
        "a block: N (s d + 4 s f + 4 d) + casts");
    add("activations", "block/norm", num_blocks * 2 * norm_bytes(z_), "a block: 2 norms");
    if (moment == PeakMoment::kLoss) {
      add("activations", "norm", norm_bytes(z_), "one norm");
      add("activations", "head", head_bytes(z_), "N s d + the cast of V d");
      add("activations", "loss", loss_bytes(z_),
          z_.has_casts ? "N V (2 + 4 + 4)" : "N V (4 + 4 + 4)");
    } else {
      // Elsewhere it takes the place of what the block above has given back.
      const bool has_own_gradient = is_checkpointed || moment == PeakMoment::kFirstBlock;
      add("activations", "backward",
          block_backward_bytes(config_, z_) + (has_own_gradient ? 4 * z_.N * z_.d : 0),
          config_.attention == Attention::kMath ? "N max(2 s f, 8 H T - the MLP's)" : "N 2 s f");
    }
    if (config_.graph && moment == PeakMoment::kLoss) add_graph_pool();
  }

  // A pool holds the segments that its allocator took: blocks in them that nothing could use again
  // beside the tensors that are live at the peak. tests/harness/graph_pool_test.cpp replays eager
  // steps by the allocator's rules and finds these.
  void add_graph_pool() {
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
    if (uses_reducer(config_) && config_.comm_dtype != CommDtype::kFp32) {
      add("graph_pool", "buckets", 2 * trained_bytes(config_),
          "at most 8 P trained: there and back in 16 bits; half of it at least");
    }
  }

  // foreach makes a list of denominators beside all parameters; the loop two tensors of the largest
  // parameter; the fused update nothing.
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
  // What else keeps, adds or saves tensors that no account has been held against yet.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kModelled = {
      {{"compile", "off"},
       {"weights", "fp32"},
       {"norm", "aten"},
       {"rope", "aten"},
       {"mlp", "aten"},
       {"loss", "aten"},
       {"embedding", "aten"}}};
  for (const auto& [key, value] : kModelled) {
    const ConfigField* field = find_config_field(key);
    if (field == nullptr) continue;
    const std::string now = field->get(config).get<std::string>();
    if (now != value) {
      return fmt::format("{}={}: its memory is not modelled yet; predictions are for {}={}", key,
                         now, key, value);
    }
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
