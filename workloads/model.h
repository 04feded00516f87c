#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"
#include "workloads/dropout.h"
#include "workloads/loss_weight.h"

namespace steplens {

// Letters: B rows of a micro-batch, T positions a row, C model width d, H query heads, K key/value
// heads, D head_dim, F FFN width, V vocabulary, L blocks.

/// One named parameter on the run's device.
struct Parameter {
  std::string name;   // "block3.wqkv".
  at::Tensor value;   // What the model computes with and what has the gradient.
  at::Tensor master;  // fp32: what the optimizer updates; `value` itself unless that is bf16.
  bool is_trained = true;

  bool has_master() const { return !value.is_same(master); }
};

/// The residual stream between two parts of the model: x + dropped out pending. What a block adds
/// last may wait for the norm that reads it, which then drops and adds in the same pass.
struct ResidualStream {
  at::Tensor x_BTC;
  at::Tensor pending_BTC;  // Undefined: nothing waits.
  DropoutSite dropout;     // Of pending.

  at::Tensor sum() const;
};

/// Decoder-only Transformer: RMSNorm, rotary embedding, grouped-query attention, SwiGLU, untied
/// embedding and LM head, no biases. Dropout, where the config asks for it, acts on what attention
/// and MLP add to the residual stream.
///
/// Parameters, in the order in which they are drawn, hashed and optimised: embedding (V, C); per
/// block norm1 (C), wqkv ((H + 2K) D, C), wo (C, H D), norm2 (C), w13 (2F, C) with the gate's rows
/// first, w2 (C, F); norm (C), head (V, C). With weights=bf16_master the matrices are bf16, rounded
/// from the same draws, and so is the residual stream.
///
/// The config says by whose kernels norms, rotary embedding, MLP, residual adds, loss and the
/// embedding's backward pass run: ATen's or those of workloads/fused; and whether cuBLAS or a
/// measurement chooses the algorithms of the matrix products.
class Model {
 public:
  /// Draws the weights from one generator seeded with `config.seed` on the run's device: matrices
  /// N(0, 0.02), wo and w2 N(0, 0.02 / sqrt(2 L)), norms 1.
  explicit Model(const RunConfig& config);

  /// Dropout draws from the config's seed, the step that `step_index` (int64 (1), on the device)
  /// then says, and `pass_index`, which numbers the passes of one step. Without a call: step 0,
  /// pass 0.
  void begin_pass(const at::Tensor& step_index, std::int64_t pass_index) {
    step_index_ = step_index;
    pass_index_ = pass_index;
  }

  /// weight.factor x the sum of the cross-entropies of all positions whose target is not -100, fp32
  /// scalar. `tokens_BT` and `targets_BT`: int64 (B, T) on the run's device. T may be shorter than
  /// config.sequence_length. Call inside the run's AutocastScope.
  at::Tensor loss_sum(const at::Tensor& tokens_BT, const at::Tensor& targets_BT,
                      const LossWeight& weight = {}) const;

  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Rotary tables (T, D), fp32: cos and sin of position x frequency, both halves alike.
  const at::Tensor& cos_TD() const { return cos_TD_; }
  const at::Tensor& sin_TD() const { return sin_TD_; }

  /// SHA-256 over two 64-bit checksums a parameter, computed on the device: sum(b) and
  /// sum(b (i mod 65521 + 1)) of the masters' 32-bit patterns b at flat index i, with wrap-around.
  std::string weights_hash() const;

  /// One Transformer block. `weights` are norm1, wqkv, wo, norm2, w13, w2.
  ResidualStream block(std::size_t layer_index, const ResidualStream& stream,
                       at::TensorList weights) const;

 private:
  at::Tensor embed(const at::Tensor& tokens_BT) const;
  // The stream where the norm read it, as `sum`, and the norm's output.
  struct Normed {
    at::Tensor x_BTC, h_BTC;
  };
  Normed norm(const ResidualStream& stream, const at::Tensor& weight_C) const;
  at::Tensor attention(const at::Tensor& h_BTC, const at::Tensor& wqkv) const;
  at::Tensor linear(const at::Tensor& x_BTK, const at::Tensor& weight_NK) const;  // x W^T.
  at::Tensor gated(const at::Tensor& gate_up) const;
  at::Tensor head_loss(const at::Tensor& h_BTC, const at::Tensor& targets_BT,
                       const LossWeight& weight) const;
  // Of the block's attention (half 0) or MLP (1) in this pass.
  DropoutSite dropout_site(std::size_t layer_index, std::int64_t half) const;
  // x + dropped out in W^T: in the product, at once after it, or left to the next norm.
  ResidualStream added(const at::Tensor& x_BTC, const at::Tensor& in_BTK,
                       const at::Tensor& weight_CK, const DropoutSite& site) const;
  at::Tensor rotate(const at::Tensor& x_BHTD) const;

  RunConfig config_;
  std::vector<Parameter> parameters_;
  at::Tensor cos_TD_, sin_TD_;  // fp32; cast to the type of q where used.
  at::Tensor step_index_;       // What dropout draws from, beside the seed.
  std::int64_t pass_index_ = 0;
  std::vector<std::string> range_names_;  // "block 0" ..., made once.
};

}  // namespace steplens
