#include "workloads/model.h"

#include <cmath>

#include <ATen/Context.h>
#include <ATen/Generator.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "harness/error.h"
#include "harness/files.h"
#include "workloads/checkpoint.h"
#include "workloads/evidence.h"
#include "workloads/fused/embedding.h"
#include "workloads/fused/gemm.h"
#include "workloads/fused/loss.h"
#include "workloads/fused/mlp.h"
#include "workloads/fused/norm.h"
#include "workloads/fused/residual.h"
#include "workloads/fused/rope.h"
#include "workloads/fused/rope_attention.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

constexpr std::size_t kTensorsPerBlock = 6;

at::Generator make_generator(at::Device device, std::uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

// Of the operands of matrix products.
at::ScalarType product_type(const RunConfig& config) {
  const AutocastMode mode = autocast_mode(config);
  return mode.is_enabled ? mode.type : at::kFloat;
}

}  // namespace

at::Tensor ResidualStream::sum() const {
  return pending_BTC.defined() ? x_BTC + drop_out(pending_BTC, dropout) : x_BTC;
}

Model::Model(const RunConfig& config) : config_(config) {
  // Dropout acts on what is added, before it is.
  SL_CHECK(config.residual == Operators::kAten || config.dropout == 0);
  const ModelShape& shape = config.shape;
  const at::Device device(config.device == Device::kCuda ? at::kCUDA : at::kCPU,
                          config.device == Device::kCuda ? 0 : -1);
  if (config.device == Device::kCuda) at::globalContext().lazyInitDevice(at::kCUDA);
  at::Generator generator = make_generator(device, config.seed);
  const at::TensorOptions options = at::TensorOptions(device).dtype(at::kFloat);
  const c10::AutoGradMode no_grad(false);

  const auto add = [&](std::string name, at::Tensor master) {
    const bool is_bf16 = config.weights == Weights::kBf16Master && master.dim() >= 2;
    at::Tensor value = is_bf16 ? master.to(at::kBFloat16) : master;
    value.set_requires_grad(true);
    if (is_bf16) count_event("bf16_parameters", value.numel());
    parameters_.push_back(
        {.name = std::move(name), .value = std::move(value), .master = std::move(master)});
  };
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, double std) {
    return at::empty({rows, columns}, options).normal_(0.0, std, generator);
  };
  constexpr double kStd = 0.02;  // GPT-2's.
  const double residual_std = kStd / std::sqrt(2.0 * static_cast<double>(shape.num_layers));
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;

  add("embedding", matrix(shape.vocab_size, shape.d_model, kStd));
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const auto name = [&](std::string_view part) { return fmt::format("block{}.{}", layer, part); };
    add(name("norm1"), at::ones({shape.d_model}, options));
    add(name("wqkv"), matrix(q_width + 2 * kv_width, shape.d_model, kStd));
    add(name("wo"), matrix(shape.d_model, q_width, residual_std));
    add(name("norm2"), at::ones({shape.d_model}, options));
    add(name("w13"), matrix(2 * shape.ffn_width, shape.d_model, kStd));
    add(name("w2"), matrix(shape.d_model, shape.ffn_width, residual_std));
    range_names_.push_back(fmt::format("block {}", layer));
  }
  add("norm", at::ones({shape.d_model}, options));
  add("head", matrix(shape.vocab_size, shape.d_model, kStd));

  if (config.frozen == Frozen::kEmbeddings) {
    parameters_.front().is_trained = false;
    parameters_.front().value.set_requires_grad(false);
    count_event("frozen_parameters", parameters_.front().value.numel());
  }

  // cos and sin of position x frequency, both halves alike (the non-interleaved form).
  const at::Tensor half = at::arange(0, shape.head_dim, 2, options);
  const at::Tensor frequency =
      at::pow(at::Scalar(config.rope_base), half * (-1.0 / static_cast<double>(shape.head_dim)));
  const at::Tensor angle_TD =
      at::outer(at::arange(0, config.sequence_length, 1, options), frequency);
  const at::Tensor both_TD = at::cat({angle_TD, angle_TD}, 1);
  cos_TD_ = both_TD.cos();
  sin_TD_ = both_TD.sin();
}

at::Tensor Model::rotate(const at::Tensor& x_BHTD) const {
  const std::int64_t half = x_BHTD.size(3) / 2;
  const at::Tensor cos_TD = cos_TD_.narrow(0, 0, x_BHTD.size(2)).to(x_BHTD.scalar_type());
  const at::Tensor sin_TD = sin_TD_.narrow(0, 0, x_BHTD.size(2)).to(x_BHTD.scalar_type());
  const std::vector<at::Tensor> halves = x_BHTD.split(half, 3);
  return x_BHTD * cos_TD + at::cat({-halves[1], halves[0]}, 3) * sin_TD;
}

at::Tensor Model::embed(const at::Tensor& tokens_BT) const {
  const ScopedRange range("embedding");
  const at::Tensor& table = parameters_.front().value;
  return config_.embedding == Operators::kFused ? fused_embedding(table, tokens_BT)
                                                : at::embedding(table, tokens_BT);
}

Model::Normed Model::norm(const ResidualStream& stream, const at::Tensor& weight_C) const {
  const ScopedRange range("norm");
  if (config_.norm == Operators::kFused) {
    NormedStream normed = fused_norm(stream.x_BTC, stream.pending_BTC, weight_C,
                                     config_.norm_epsilon, product_type(config_), stream.dropout);
    return {.x_BTC = std::move(normed.stream_BTC), .h_BTC = std::move(normed.normed_BTC)};
  }
  at::Tensor x_BTC = stream.sum();
  at::Tensor h_BTC = at::rms_norm(x_BTC, {config_.shape.d_model}, weight_C, config_.norm_epsilon);
  return {.x_BTC = std::move(x_BTC), .h_BTC = std::move(h_BTC)};
}

DropoutSite Model::dropout_site(std::size_t layer_index, std::int64_t half) const {
  const std::int64_t calls_per_pass = 2 * config_.shape.num_layers;
  const std::int64_t call = 2 * static_cast<std::int64_t>(layer_index) + half;
  return {.probability = config_.dropout,
          .seed = config_.seed,
          .call_index = static_cast<std::uint32_t>(pass_index_ * calls_per_pass + call),
          .step_index = step_index_};
}

ResidualStream Model::added(const at::Tensor& x_BTC, const at::Tensor& in_BTK,
                            const at::Tensor& weight_CK, const DropoutSite& site) const {
  if (config_.residual == Operators::kFused) {
    return {.x_BTC = residual_linear(x_BTC, in_BTK, weight_CK, config_.gemm)};
  }
  const ResidualStream stream = {
      .x_BTC = x_BTC, .pending_BTC = linear(in_BTK, weight_CK), .dropout = site};
  if (config_.norm == Operators::kFused) return stream;
  return {.x_BTC = stream.sum()};
}

at::Tensor Model::linear(const at::Tensor& x_BTK, const at::Tensor& weight_NK) const {
  return config_.gemm == Gemm::kTuned ? tuned_linear(x_BTK, weight_NK)
                                      : at::linear(x_BTK, weight_NK);
}

at::Tensor Model::attention(const at::Tensor& h_BTC, const at::Tensor& wqkv) const {
  const ModelShape& shape = config_.shape;
  const std::int64_t num_rows = h_BTC.size(0);
  const std::int64_t length = h_BTC.size(1);
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  const at::Tensor qkv = linear(h_BTC, wqkv);
  if (takes_rope_attention(config_)) {
    return fused_rope_attention(qkv, cos_TD_, sin_TD_, shape.num_heads);
  }
  QkvHeads heads;
  if (config_.rope == Operators::kFused) {
    heads = fused_rope(qkv, cos_TD_, sin_TD_, shape.num_heads, shape.num_kv_heads);
  } else {
    const std::vector<at::Tensor> parts = qkv.split_with_sizes({q_width, kv_width, kv_width}, 2);
    const auto split = [&](const at::Tensor& part, std::int64_t num_heads) {
      return part.view({num_rows, length, num_heads, shape.head_dim}).transpose(1, 2);
    };
    heads = {.q_BHTD = rotate(split(parts[0], shape.num_heads)),
             .k_BKTD = rotate(split(parts[1], shape.num_kv_heads)),
             .v_BKTD = split(parts[2], shape.num_kv_heads)};
  }
  const at::Tensor y_BHTD = at::scaled_dot_product_attention(
      heads.q_BHTD, heads.k_BKTD, heads.v_BKTD, {}, 0.0, /*is_causal=*/true, std::nullopt,
      /*enable_gqa=*/shape.num_heads != shape.num_kv_heads);
  return y_BHTD.transpose(1, 2).reshape({num_rows, length, q_width});
}

at::Tensor Model::gated(const at::Tensor& gate_up) const {
  if (config_.mlp == Operators::kFused) return fused_swiglu(gate_up);
  const std::vector<at::Tensor> halves = gate_up.split(config_.shape.ffn_width, 2);
  return at::silu(halves[0]) * halves[1];
}

ResidualStream Model::block(std::size_t layer_index, const ResidualStream& stream,
                            at::TensorList weights) const {
  SL_CHECK(weights.size() == kTensorsPerBlock);
  const ScopedRange range(range_names_[layer_index].c_str());
  count_event("block_forwards");
  ResidualStream middle;
  {
    const Normed normed = norm(stream, weights[0]);
    const ScopedRange attention_range("attention");
    middle = added(normed.x_BTC, attention(normed.h_BTC, weights[1]), weights[2],
                   dropout_site(layer_index, 0));
  }
  const Normed normed = norm(middle, weights[3]);
  const ScopedRange mlp("mlp");
  return added(normed.x_BTC, gated(linear(normed.h_BTC, weights[4])), weights[5],
               dropout_site(layer_index, 1));
}

at::Tensor Model::head_loss(const at::Tensor& h_BTC, const at::Tensor& targets_BT,
                            const LossWeight& weight) const {
  const at::Tensor& weight_VC = parameters_.back().value;
  if (config_.loss == Operators::kFused) {
    const ScopedRange range("head");
    return fused_head_loss(h_BTC, weight_VC, targets_BT, product_type(config_), config_.gemm,
                           config_.num_loss_rows, weight);
  }
  at::Tensor logits_BTV;
  {
    const ScopedRange range("head");
    logits_BTV = linear(h_BTC, weight_VC);
  }
  const ScopedRange range("loss");
  return at::cross_entropy_loss(logits_BTV.view({-1, config_.shape.vocab_size}),
                                targets_BT.reshape({-1}), {}, at::Reduction::Sum,
                                /*ignore_index=*/-100) *
         weight.factor;
}

at::Tensor Model::loss_sum(const at::Tensor& tokens_BT, const at::Tensor& targets_BT,
                           const LossWeight& weight) const {
  count_event("forward_passes");
  ResidualStream stream = {.x_BTC = embed(tokens_BT)};
  for (std::size_t layer = 0; layer < range_names_.size(); ++layer) {
    std::vector<at::Tensor> weights;
    weights.reserve(kTensorsPerBlock);
    for (std::size_t i = 0; i < kTensorsPerBlock; ++i) {
      weights.push_back(parameters_[1 + layer * kTensorsPerBlock + i].value);
    }
    if (config_.checkpoint == Checkpoint::kFull) {
      stream = {
          .x_BTC = checkpointed_block(*this, layer, autocast_mode(config_), stream.x_BTC, weights)};
    } else {
      stream = block(layer, stream, weights);
    }
  }
  return head_loss(norm(stream, parameters_[parameters_.size() - 2].value).h_BTC, targets_BT,
                   weight);
}

std::string Model::weights_hash() const {
  const c10::AutoGradMode no_grad(false);
  std::vector<at::Tensor> sums;
  for (const Parameter& parameter : parameters_) {
    const at::Tensor bits =
        parameter.master.detach().contiguous().view(at::kInt).reshape({-1}).to(at::kLong);
    const at::Tensor weight = at::arange(bits.numel(), bits.options()).remainder_(65521).add_(1);
    sums.push_back(bits.sum());
    sums.push_back(bits.mul(weight).sum());
  }
  std::string bytes;
  for (const at::Tensor& sum : sums) {
    const std::int64_t value = sum.item<std::int64_t>();
    bytes.append(reinterpret_cast<const char*>(&value),
                 sizeof(value));  // Little-endian hosts only.
  }
  return sha256_hex(bytes);
}

}  // namespace steplens
