#include "reports/roofline/work.h"

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::string_view kAttentionModule = "block/attention";
constexpr std::string_view kMlpModule = "block/mlp";
constexpr std::string_view kHeadModule = "head";

std::int64_t element_bytes(const RunConfig& config) {
  const bool is_half = config.precision == Precision::kBf16 || config.precision == Precision::kFp16;
  return is_half ? 2 : 4;
}

std::int64_t positions_per_micro_step(const RunConfig& config) {
  return micro_batch_size(config) * config.sequence_length;
}

std::int64_t query_width(const ModelShape& shape) { return shape.num_heads * shape.head_dim; }
std::int64_t key_width(const ModelShape& shape) { return shape.num_kv_heads * shape.head_dim; }

// Q K^T or P V of the whole square, and each of their gradients.
Work square_product(const RunConfig& config) {
  const ModelShape& shape = config.shape;
  const auto rows = static_cast<double>(micro_batch_size(config) * shape.num_heads);
  const auto length = static_cast<double>(config.sequence_length);
  const auto width = static_cast<double>(shape.head_dim);
  // The math backend converts q, k and v of bf16 and fp16 to fp32 first.
  return {.flops = 2 * rows * length * length * width,
          .bytes = 4 * rows * (2 * length * width + length * length),
          .is_fp32 = element_bytes(config) != 4};
}

std::vector<Work> forward_matmuls(const RunConfig& config, std::string_view module_kind) {
  const ModelShape& shape = config.shape;
  const std::int64_t num_rows = positions_per_micro_step(config);
  const std::int64_t e = element_bytes(config);
  const auto linear = [&](std::int64_t in, std::int64_t out) {
    return matmul_work(num_rows, in, out, e);
  };
  if (module_kind == kAttentionModule) {
    std::vector<Work> products = {linear(shape.d_model, query_width(shape) + 2 * key_width(shape))};
    if (config.attention == Attention::kMath)
      products.insert(products.end(), 2, square_product(config));
    products.push_back(linear(query_width(shape), shape.d_model));
    return products;
  }
  if (module_kind == kMlpModule) {
    return {linear(shape.d_model, (shape.is_gated ? 2 : 1) * shape.ffn_width),
            linear(shape.ffn_width, shape.d_model)};
  }
  if (module_kind == kHeadModule) return {linear(shape.d_model, shape.vocab_size)};
  return {};
}

}  // namespace

Work matmul_work(std::int64_t num_rows, std::int64_t in, std::int64_t out,
                 std::int64_t element_bytes) {
  const auto n = static_cast<double>(num_rows);
  const auto i = static_cast<double>(in);
  const auto o = static_cast<double>(out);
  return {.flops = 2 * n * i * o,
          .bytes = static_cast<double>(element_bytes) * (n * i + i * o + n * o)};
}

std::vector<Work> matmuls_of(const RunConfig& config, std::string_view module_kind, Phase phase) {
  std::vector<Work> forward = forward_matmuls(config, module_kind);
  if (phase == Phase::kForward) return forward;
  if (phase != Phase::kBackward) return {};
  std::vector<Work> products;
  const bool is_recomputed = config.checkpoint == Checkpoint::kFull && module_kind != kHeadModule;
  if (is_recomputed) products = forward;
  for (auto it = forward.rbegin(); it != forward.rend(); ++it) {
    products.insert(products.end(), 2, *it);  // With respect to input and weight.
  }
  return products;
}

Work attention_work(const RunConfig& config, Phase phase) {
  if (config.attention == Attention::kMath) return {};
  const ModelShape& shape = config.shape;
  const auto rows = static_cast<double>(micro_batch_size(config));
  const auto length = static_cast<double>(config.sequence_length);
  const auto query = static_cast<double>(query_width(shape));
  const auto key = static_cast<double>(key_width(shape));
  const double bytes = static_cast<double>(element_bytes(config)) * rows * length;
  const double flops = 2 * rows * query * length * length;
  if (phase == Phase::kForward) return {.flops = flops, .bytes = bytes * (2 * query + 2 * key)};
  if (phase == Phase::kBackward) {
    return {.flops = 2 * flops, .bytes = bytes * (4 * query + 4 * key)};
  }
  return {};
}

std::vector<BandwidthPart> memory_parts_of(const RunConfig& config) {
  const ModelShape& shape = config.shape;
  const auto positions = static_cast<double>(positions_per_micro_step(config)) *
                         static_cast<double>(config.num_accumulation);
  const auto layers = static_cast<double>(shape.num_layers);
  const double stream = positions * static_cast<double>(shape.d_model);
  const double logits = positions * static_cast<double>(shape.vocab_size) *
                        static_cast<double>(element_bytes(config));
  double parameters = static_cast<double>(num_parameters(shape));
  if (config.frozen == Frozen::kEmbeddings) {
    parameters -= static_cast<double>(shape.vocab_size) * static_cast<double>(shape.d_model);
  }
  // With checkpointing the norms of the blocks run forward once more, in the backward pass.
  const double recomputed = config.checkpoint == Checkpoint::kFull ? 8 : 0;
  std::vector<BandwidthPart> parts;
  if (config.norm == Operators::kAten) {
    parts.push_back({"norms of the blocks, forward", "block/norm", Phase::kForward,
                     2 * layers * stream * 8, "2 L N d elements of fp32 read and written"});
    parts.push_back({"norms of the blocks, backward", "block/norm", Phase::kBackward,
                     2 * layers * stream * (12 + recomputed),
                     "2 L N d elements of fp32: input and gradient read, gradient written"});
  }
  if (config.loss == Operators::kAten) {
    parts.push_back({"loss, forward", "loss", Phase::kForward, logits, "N V logits read once"});
    parts.push_back({"loss, backward", "loss", Phase::kBackward, 2 * logits,
                     "N V logits read, gradients written"});
  }
  if (config.weights != Weights::kFp32) return parts;
  if (config.optimizer != Optimizer::kMultiTensor) {
    parts.push_back({"clip", "", Phase::kClip, 12 * parameters,
                     "fp32 gradients read for the norm, read and written for the scale"});
  }
  parts.push_back(
      {"optimizer", "", Phase::kOptimizer, 28 * parameters,
       "AdamW in fp32: parameter, gradient and two moments read, three of them written"});
  return parts;
}

std::string why_not_derived(const RunConfig& config) {
  try {
    validate(config);
    num_matmul_parameters(config.shape);
  } catch (const ConfigError& error) {
    return error.what();
  }
  if (config.batching != Batching::kPacked) {
    return "its rows are of changing lengths, so shapes do not follow from the config";
  }
  return {};
}

}  // namespace steplens
