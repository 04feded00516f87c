#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "kernels/rope/rope.h"

namespace steplens {

/// Causal attention's backward pass in bfloat16, scaled by 1 / sqrt(D). Every view's channels lie
/// side by side (channel_stride 1).
struct AttentionBackwardArgs {
  std::int64_t B = 0;                  // Sequences.
  std::int64_t T = 0;                  // Tokens of each.
  std::int64_t H = 0;                  // Heads, of q as of k and v.
  std::int64_t D = 0;                  // Channels of a head; a multiple of 8, up to 128.
  ConstHeadsView q, k, v, y, dy;       // (B, T, H, D); y: the forward pass's output.
  const float* log_sum_exp = nullptr;  // (B, H, T), of the forward pass.
  HeadsView dq, dk, dv;                // (B, T, H, D); each element is written.
  void* workspace = nullptr;           // AttentionBackward::workspace_bytes().
};

/// cuDNN's plan for one shape and its strides: the kernels that LibTorch runs, which takes no
/// gradients' places from its caller. With dq, dk and dv where the gradient of a fused projection
/// wants them (qkv_heads), nothing has to be copied there: 2 H D elements a token less to move.
class AttentionBackward {
 public:
  /// Whether this build has cuDNN's frontend (scripts/setup.sh installs its headers).
  static bool is_available();

  /// Takes sizes and strides from `args`, no addresses; not while a graph is captured. Throws
  /// ConfigError naming a size that cannot be, and DeviceError with cuDNN's words where it has no
  /// plan, or the build no frontend.
  explicit AttentionBackward(const AttentionBackwardArgs& args);
  ~AttentionBackward();
  AttentionBackward(const AttentionBackward&) = delete;
  AttentionBackward& operator=(const AttentionBackward&) = delete;

  std::int64_t workspace_bytes() const;

  /// Only enqueues on `stream`; one thread at a time. `args` has the constructor's sizes and
  /// strides. Throws DeviceError.
  void run(const AttentionBackwardArgs& args, cudaStream_t stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace steplens
