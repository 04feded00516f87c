#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/vector.h"

namespace steplens {

/// Gradient of a table of embeddings:
///
///   dtable[v, c] = sum over n with tokens[n] = v of dy[n, c]
///
/// Row-major, device memory, any sizes and alignment. Deterministic, without atomic additions: a
/// stable sort of the positions by token gives each row its summands in ascending n; sums are
/// float32 and rounded once. Every row of dtable is written, zeros where no token names it: no
/// memset before. Types allowed: dy and dtable both float32, both bfloat16, or a float32 dtable of
/// a bfloat16 dy.
struct EmbeddingBackwardArgs {
  const void* dy = nullptr;              // (N, C) of dy_type.
  const std::int64_t* tokens = nullptr;  // (N); those outside 0 .. V - 1 are left out.
  void* dtable = nullptr;                // (V, C) of dtable_type; overwritten.
  void* workspace = nullptr;  // embedding_backward_workspace_bytes(N, C, V), 256-byte aligned.
  std::int64_t N = 0;         // Positions: batch * tokens, less than 2^31.
  std::int64_t C = 0;         // Channels.
  std::int64_t V = 0;         // Vocabulary, less than 2^31; V C at most 2^35.
  ElementType dy_type = ElementType::kFloat32;
  ElementType dtable_type = ElementType::kFloat32;
};

/// Bytes that `EmbeddingBackwardArgs::workspace` needs. Throws DeviceError if CUDA refuses to say.
std::size_t embedding_backward_workspace_bytes(std::int64_t N, std::int64_t C, std::int64_t V);

/// Bytes that a perfect kernel moves: dy and tokens read once, dtable written once.
constexpr std::int64_t minimum_bytes(const EmbeddingBackwardArgs& args) {
  return args.N * (args.C * element_bytes(args.dy_type) + 8) +
         args.V * args.C * element_bytes(args.dtable_type);
}

/// Additions.
constexpr std::int64_t flops(const EmbeddingBackwardArgs& args) { return args.N * args.C; }

/// Only enqueues on `stream`. Throws ConfigError for arguments that are not allowed, DeviceError if
/// a launch fails.
void embedding_backward(const EmbeddingBackwardArgs& args, cudaStream_t stream);

}  // namespace steplens
