#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"

namespace steplens {

// Letters: B rows of a micro-batch, T positions a row, C model width d, H query heads, K key/value
// heads, D head_dim, F FFN width, V vocabulary, L blocks.

/// One named parameter, fp32 on the run's device.
struct Parameter {
  std::string name;  // "block3.wqkv".
  at::Tensor value;
  bool is_trained = true;
};

/// Decoder-only Transformer: RMSNorm, rotary embedding, grouped-query attention, SwiGLU, untied
/// embedding and LM head, no biases, no dropout.
///
/// Parameters, in the order in which they are drawn, hashed and optimised: embedding (V, C); per
/// block norm1 (C), wqkv ((H + 2K) D, C), wo (C, H D), norm2 (C), w13 (2F, C) with the gate's rows
/// first, w2 (C, F); norm (C), head (V, C).
class Model {
 public:
  /// Draws the weights from one generator seeded with `config.seed` on the run's device: matrices
  /// N(0, 0.02), wo and w2 N(0, 0.02 / sqrt(2 L)), norms 1.
  explicit Model(const RunConfig& config);

  /// Sum of the cross-entropies of all positions whose target is not -100, fp32 scalar.
  /// `tokens_BT` and `targets_BT`: int64 (B, T) on the run's device. T may be shorter than
  /// config.sequence_length. Call inside the run's AutocastScope.
  at::Tensor loss_sum(const at::Tensor& tokens_BT, const at::Tensor& targets_BT) const;

  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// SHA-256 over two 64-bit checksums a parameter, computed on the device: sum(b) and
  /// sum(b (i mod 65521 + 1)) of the values' 32-bit patterns b at flat index i, with wrap-around.
  std::string weights_hash() const;

  /// One Transformer block: x_BTC -> x_BTC. `weights` are norm1, wqkv, wo, norm2, w13, w2.
  at::Tensor block(std::size_t layer_index, const at::Tensor& x_BTC, at::TensorList weights) const;

 private:
  at::Tensor rotate(const at::Tensor& x_BHTD) const;

  RunConfig config_;
  std::vector<Parameter> parameters_;
  at::Tensor cos_TD_, sin_TD_;            // fp32; cast to the type of q where used.
  std::vector<std::string> range_names_;  // "block 0" ..., made once.
};

}  // namespace steplens
