#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/vector.h"

namespace steplens {

/// Where the heads of q, k, v or of a gradient lie: element (b, t, h, c) at
/// data[b * batch_stride + t * token_stride + h * head_stride + c * channel_stride], in elements.
template <typename Void>
struct HeadsOf {
  Void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t channel_stride =
      1;  // 1 in all layouts that attention kernels make; others are slower.
};
using HeadsView = HeadsOf<void>;
using ConstHeadsView = HeadsOf<const void>;

/// Sizes and angles that forward and backward share. The tables are float32, also where q and k are
/// bfloat16: angles rounded to bfloat16 lose the position's last digits.
struct RopeShape {
  std::int64_t B = 0;          // Sequences.
  std::int64_t T = 0;          // Tokens of each.
  std::int64_t H = 0;          // Heads of q.
  std::int64_t Hkv = 0;        // Heads of k and of v.
  std::int64_t D = 0;          // Channels of a head; even.
  const float* cos = nullptr;  // (T, D / 2): cos(t * base^(-2 j / D)); rows table_stride apart.
  const float* sin = nullptr;  // (T, D / 2), likewise.
  std::int64_t table_stride =
      0;  // In elements, >= D / 2: a (T, D) table of twice the same half will do.
  ElementType type = ElementType::kFloat32;  // Of qkv, q, k, v and their gradients.
};

/// Rotary embedding in the half form, applied to q and k of a fused projection:
///
///   out[c]         = in[c] * cos[t, c] - in[c + D / 2] * sin[t, c]          for c < D / 2
///   out[c + D / 2] = in[c + D / 2] * cos[t, c] + in[c] * sin[t, c]
///
/// qkv: (B, T, (H + 2 Hkv) D), contiguous: all heads of q, then of k, then of v. The fewest bytes
/// move when q and k are rotated where they lie (q and k = qkv_heads of the same qkv) and v stays a
/// view of qkv (`v.data` null): 2 (H + Hkv) D elements a token, no buffer beside qkv; attention
/// kernels take these strided views, and the projection's backward does not need its output. Copies
/// into (B, T, heads, D) buffers of their own are as fast for q and k and cost 2 Hkv D more for v.
/// (Su et al. 2021, arXiv:2104.09864.)
struct RopeQkvForwardArgs {
  RopeShape shape;
  const void* qkv = nullptr;
  HeadsView q;  // (B, T, H, D)
  HeadsView k;  // (B, T, Hkv, D)
  HeadsView v;  // (B, T, Hkv, D); data null: v is not copied.
};

/// The transposed rotation of dq and dk, and a copy of dv, into the fused projection's gradient.
struct RopeQkvBackwardArgs {
  RopeShape shape;
  ConstHeadsView dq;
  ConstHeadsView dk;
  ConstHeadsView dv;     // Not copied if it is qkv_heads(dqkv, kV) already; so may dq and dk be.
  void* dqkv = nullptr;  // (B, T, (H + 2 Hkv) D), contiguous; each element is written.
};

enum class QkvPart : std::uint8_t { kQ, kK, kV };

/// The heads of q, k or v where they lie in a fused projection `qkv`.
HeadsView qkv_heads(void* qkv, QkvPart part, const RopeShape& shape);
ConstHeadsView qkv_heads(const void* qkv, QkvPart part, const RopeShape& shape);

/// Bytes that a perfect kernel moves: each head read once and written once, the tables read once.
std::int64_t minimum_bytes(const RopeQkvForwardArgs& args);
std::int64_t minimum_bytes(const RopeQkvBackwardArgs& args);

/// Multiplications and additions.
std::int64_t flops(const RopeShape& shape);

/// Only enqueues on `stream`. Throws ConfigError for arguments that are not allowed, DeviceError if
/// the launch fails.
void rope_qkv_forward(const RopeQkvForwardArgs& args, cudaStream_t stream);
void rope_qkv_backward(const RopeQkvBackwardArgs& args, cudaStream_t stream);

}  // namespace steplens
