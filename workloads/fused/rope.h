#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

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

}  // namespace steplens
