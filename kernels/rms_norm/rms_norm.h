#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cuda_runtime_api.h>

#include "kernels/dropout/dropout.h"
#include "kernels/vector.h"

namespace steplens {

/// RMSNorm over the last axis with the residual add before it:
///
///   r[n, c] = dropped(x)[n, c] + residual[n, c]        (r = x without a residual)
///   rstd[n] = 1 / sqrt(mean_c(r[n, c]^2) + epsilon)
///   y[n, c] = r[n, c] * rstd[n] * weight[c]
///
/// Row-major, device memory, any N >= 0 and C >= 1, any alignment: 16-byte accesses where pointers
/// and C allow it. All arithmetic is float32; r is rounded to `stream_type` first, so that backward
/// sees the r that forward used. (Zhang and Sennrich 2019, arXiv:1910.07467.)
///
/// Types allowed: x, stream and y all float32; all bfloat16; x and y bfloat16 around a float32
/// stream; and, without a residual, float32 x with bfloat16 y.
struct RmsNormForwardArgs {
  const void* x = nullptr;         // (N, C) of x_type: the branch's output, or the stream itself.
  const void* residual = nullptr;  // (N, C) of stream_type; null: no add.
  const void* weight = nullptr;    // (C) of weight_type.
  void* r = nullptr;      // (N, C) of stream_type; may be `residual` or `x`. With a residual only.
  void* y = nullptr;      // (N, C) of y_type; may be `x` if of the same type.
  float* rstd = nullptr;  // (N), for backward; null: not stored.
  std::int64_t N = 0;     // Rows: batch * tokens.
  std::int64_t C = 0;     // Channels.
  float epsilon = 1e-5f;
  ElementType x_type = ElementType::kFloat32;
  ElementType stream_type =
      ElementType::kFloat32;  // Of residual and r; ignored without a residual.
  ElementType y_type = ElementType::kFloat32;
  ElementType weight_type = ElementType::kFloat32;
  DropoutMask dropout;  // Of x, with a residual only; flat indices n C + c.
};

/// Gradients of the above, from the saved r and rstd:
///
///   g[n, c]  = dy[n, c] * weight[c]
///   dr[n, c] = rstd[n] * (g[n, c] - r[n, c] * rstd[n]^2 * mean_c(g[n, c] * r[n, c])) + dr_in[n, c]
///   dweight[c] = sum_n dy[n, c] * r[n, c] * rstd[n]
///
/// dr is the gradient of residual, and of x unless that was dropped out: then that is
/// dx = dropped(dr). Deterministic: each block sums its rows of
/// dweight in a fixed order into `workspace`, a second kernel sums the blocks in a fixed order.
/// Types allowed: dy and stream both float32, both bfloat16, or dy bfloat16 with a float32 stream.
struct RmsNormBackwardArgs {
  const void* dy = nullptr;      // (N, C) of dy_type.
  const void* r = nullptr;       // (N, C) of stream_type: what forward normalized.
  const float* rstd = nullptr;   // (N)
  const void* weight = nullptr;  // (C) of weight_type.
  const void* dr_in =
      nullptr;         // (N, C) of stream_type: gradient that reaches r past the norm; null: none.
  void* dr = nullptr;  // (N, C) of stream_type; may be `dr_in`, or `dy` if of the same type.
  void* dx =
      nullptr;  // (N, C) of dy_type: the gradient of x where it is another than dr, for a
                // bfloat16 branch beside a float32 stream or after dropout; null: not stored.
  float* dweight = nullptr;   // (C); overwritten.
  void* workspace = nullptr;  // rms_norm_backward_workspace_bytes(N, C), 16-byte aligned.
  std::int64_t N = 0;
  std::int64_t C = 0;
  ElementType dy_type = ElementType::kFloat32;
  ElementType stream_type = ElementType::kFloat32;
  ElementType weight_type = ElementType::kFloat32;
  DropoutMask dropout;  // Forward's; needs dx.
};

/// Bytes that `RmsNormBackwardArgs::workspace` needs on the current device.
std::size_t rms_norm_backward_workspace_bytes(std::int64_t N, std::int64_t C);

/// Bytes that a perfect kernel moves: each input read once, each output written once.
constexpr std::int64_t minimum_bytes(const RmsNormForwardArgs& args) {
  const std::int64_t per_element =
      element_bytes(args.x_type) + element_bytes(args.y_type) +
      (args.residual != nullptr ? 2 * element_bytes(args.stream_type) : 0);
  return args.N * args.C * per_element + args.C * element_bytes(args.weight_type) +
         (args.rstd != nullptr ? args.N * 4 : 0);
}
constexpr std::int64_t minimum_bytes(const RmsNormBackwardArgs& args) {
  const std::int64_t stream_bytes = element_bytes(args.stream_type);
  const std::int64_t per_element = element_bytes(args.dy_type) + 2 * stream_bytes +
                                   (args.dr_in != nullptr ? stream_bytes : 0) +
                                   (args.dx != nullptr ? element_bytes(args.dy_type) : 0);
  return args.N * args.C * per_element + args.N * 4 +
         args.C * (element_bytes(args.weight_type) + 4);
}

/// Multiplications and additions.
constexpr std::int64_t flops(const RmsNormForwardArgs& args) {
  return args.N * args.C * (args.residual != nullptr ? 5 : 4);
}
constexpr std::int64_t flops(const RmsNormBackwardArgs& args) {
  return args.N * args.C * (args.dr_in != nullptr ? 10 : 9);
}

/// One implementation. `launch` only enqueues on `stream`; it throws ConfigError for arguments that
/// the operator does not allow, DeviceError if the launch fails.
struct RmsNormForwardVariant {
  std::string_view name;
  std::string_view idea;  // What it adds over the variant before it.
  bool (*is_applicable)(const RmsNormForwardArgs& args);
  void (*launch)(const RmsNormForwardArgs& args, cudaStream_t stream);
};
struct RmsNormBackwardVariant {
  std::string_view name;
  std::string_view idea;
  bool (*is_applicable)(const RmsNormBackwardArgs& args);
  void (*launch)(const RmsNormBackwardArgs& args, cudaStream_t stream);
};

/// Slowest first; the first is applicable to all arguments.
std::span<const RmsNormForwardVariant> rms_norm_forward_variants();
std::span<const RmsNormBackwardVariant> rms_norm_backward_variants();

/// Launches the last applicable variant.
void rms_norm_forward(const RmsNormForwardArgs& args, cudaStream_t stream);
void rms_norm_backward(const RmsNormBackwardArgs& args, cudaStream_t stream);

}  // namespace steplens
