#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/vector.h"

namespace steplens {

/// SwiGLU of a fused gate and up projection:
///
///   y[n, c] = silu(gate[n, c]) * up[n, c],   silu(z) = z / (1 + exp(-z))
///   gate = gate_up[:, 0 : F],  up = gate_up[:, F : 2 F]
///
/// Row-major, device memory, any N >= 0 and F >= 1, any alignment: 16-byte accesses where pointers
/// and F allow it. Arithmetic is float32, rounded once. (Shazeer 2020, arXiv:2002.05202.)
struct SwigluForwardArgs {
  const void* gate_up = nullptr;  // (N, 2 F) of type.
  void* y = nullptr;              // (N, F) of type.
  std::int64_t N = 0;             // Rows: batch * tokens.
  std::int64_t F = 0;             // Width of the MLP.
  ElementType type = ElementType::kFloat32;
};

/// Gradients from the same gate_up; silu is computed again. With s = 1 / (1 + exp(-gate)):
///
///   dgate[n, c] = dy[n, c] * up[n, c] * s * (1 + gate[n, c] * (1 - s))
///   dup[n, c]   = dy[n, c] * gate[n, c] * s
struct SwigluBackwardArgs {
  const void* dy = nullptr;       // (N, F) of type.
  const void* gate_up = nullptr;  // (N, 2 F) of type.
  void* dgate_up = nullptr;       // (N, 2 F) of type; may be `gate_up`.
  void* y = nullptr;  // (N, F): forward's output once more, so that it need not be kept; may be
                      // `dy`. Null: not stored.
  std::int64_t N = 0;
  std::int64_t F = 0;
  ElementType type = ElementType::kFloat32;
};

/// Bytes that a perfect kernel moves: each input read once, each output written once.
constexpr std::int64_t minimum_bytes(const SwigluForwardArgs& args) {
  return 3 * args.N * args.F * element_bytes(args.type);
}
constexpr std::int64_t minimum_bytes(const SwigluBackwardArgs& args) {
  return (args.y != nullptr ? 6 : 5) * args.N * args.F * element_bytes(args.type);
}

/// Additions, multiplications, divisions and exponentials.
constexpr std::int64_t flops(const SwigluForwardArgs& args) { return 5 * args.N * args.F; }
constexpr std::int64_t flops(const SwigluBackwardArgs& args) { return 11 * args.N * args.F; }

/// Only enqueues on `stream`. Throws ConfigError for arguments that are not allowed, DeviceError if
/// the launch fails.
void swiglu_forward(const SwigluForwardArgs& args, cudaStream_t stream);
void swiglu_backward(const SwigluBackwardArgs& args, cudaStream_t stream);

}  // namespace steplens
