#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"

namespace steplens {

/// Whether `fused_rope_attention` takes this config's attention: rope=fused, attention=cudnn, bf16,
/// rows of one length above 1 (each length is a plan of its own), as many heads of k and v as of q,
/// and a build with cuDNN's frontend.
bool takes_rope_attention(const RunConfig& config);

/// Rotary embedding and causal attention of a fused projection `qkv_BTC` (B, T, 3 H D), bf16:
/// (B, T, H D). q and k are rotated where they lie, as fused_rope does; the forward pass is
/// LibTorch's cuDNN operator. Backward, cuDNN writes dq, dk and dv into the projection's gradient,
/// where dq and dk are rotated back (kernels/attention): LibTorch's own operator has them
/// elsewhere, from where dv must be copied. On a GPU, differentiable once.
at::Tensor fused_rope_attention(const at::Tensor& qkv_BTC, const at::Tensor& cos_TD,
                                const at::Tensor& sin_TD, std::int64_t num_heads);

}  // namespace steplens
