#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/rope/rope.h"

namespace steplens {

/// q, k and v as attention takes them: views of the projection's output.
struct QkvHeads {
  at::Tensor q_BHTD, k_BKTD, v_BKTD;
};

/// Rotates q and k where they lie in `qkv_BTC` (B, T, (H + 2K) D), which is overwritten: its maker
/// must not need it any more (a matrix product does not). `cos_TD` and `sin_TD`: fp32, both halves
/// alike, at least T rows. By one kernel each way (kernels/rope), on a GPU, differentiable once.
QkvHeads fused_rope(const at::Tensor& qkv_BTC, const at::Tensor& cos_TD, const at::Tensor& sin_TD,
                    std::int64_t num_heads, std::int64_t num_kv_heads);

// What the functions of rope.h and rope_attention.h share: no autograd in these.

/// Shape and angles of B x T tokens.
RopeShape rope_shape(const at::Tensor& cos_TD, const at::Tensor& sin_TD, std::int64_t num_rows,
                     std::int64_t length, std::int64_t num_heads, std::int64_t num_kv_heads,
                     at::ScalarType type);

/// fused_rope's forward pass: one kernel, and views.
QkvHeads rotate_in_place(const at::Tensor& qkv_BTC, const RopeShape& shape);

/// (B, H, T, D) as the kernels see it.
ConstHeadsView heads_view(const at::Tensor& x_BHTD);

}  // namespace steplens
