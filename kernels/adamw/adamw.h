#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/vector.h"

namespace steplens {

/// One tensor of a multi-tensor update. All pointers are device memory, 16-byte aligned,
/// contiguous.
struct AdamwTensor {
  float* parameter = nullptr;   // (numel) fp32: the weight, or the master of a bf16 weight.
  float* exp_avg = nullptr;     // (numel)
  float* exp_avg_sq = nullptr;  // (numel)
  void* bf16_copy = nullptr;    // (numel) bf16: written with the parameter's new value; null: none.
  float weight_decay = 0;
  ElementType gradient_type = ElementType::kFloat32;
};

/// A piece of one tensor: the work of one block.
struct TensorChunk {
  std::int32_t tensor_index = 0;
  std::int32_t num_elements = 0;  // 1 to kChunkElements.
  std::int64_t first_element = 0;
};

/// Elements of a chunk: 8 vectors of 4 for each of a block's 256 threads. A block then moves 230
/// kB, beside which its 64 bytes of descriptors are nothing.
inline constexpr std::int64_t kChunkElements = 8192;

/// Chunks of tensors with `numels` elements each, in the order of the tensors; none of an empty
/// one.
std::vector<TensorChunk> make_chunks(std::span<const std::int64_t> numels);

/// What both operators below work on. `tensors` and `chunks` are made once. Gradients may lie
/// elsewhere in every step: their addresses travel as kernel parameters, so that nothing is copied
/// to the device in a step and a captured graph holds the addresses of its own gradients.
struct TensorTable {
  const AdamwTensor* tensors = nullptr;    // Device memory, one a tensor.
  const TensorChunk* chunks = nullptr;     // Device memory: make_chunks(numels).
  std::span<const std::int64_t> numels;    // Host memory, one a tensor.
  std::span<const void* const> gradients;  // Host memory, one a tensor: device addresses, any
                                           // alignment.
};

/// L2 norm of all gradients together:
///
///   norm = sqrt(sum over all tensors and elements of gradient^2)
///
/// Deterministic: a fixed number of blocks sums chunks in a fixed order into fp32 partial sums, one
/// block adds those in double.
struct GradientNormArgs {
  TensorTable table;
  float* partials = nullptr;  // Device memory, gradient_norm_workspace_bytes(numels.size()).
  float* norm = nullptr;      // Device memory, one value: overwritten.
};

std::size_t gradient_norm_workspace_bytes(std::size_t num_tensors);

/// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) over all tensors, with the clip of the
/// whole gradient folded in. With t = step_count + 1, which is stored back:
///
///   g = gradient * min(1, max_grad_norm / (grad_norm + 1e-6))
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   p = p (1 - lr weight_decay) - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// Learning rate, norm, step count and the overflow flag are read on the device: a captured graph
/// moves along the schedule. Gradients are only read. Bytes a parameter: 28 with an fp32 gradient,
/// 28 with a bf16 gradient and a bf16 copy.
struct AdamwArgs {
  TensorTable table;
  const float* learning_rate = nullptr;  // Device memory, one value; likewise all pointers below.
  const float* grad_norm = nullptr;      // Null: no clip.
  const float* found_inf = nullptr;      // Not 0: nothing is updated or counted. Null: never.
  float* step_count = nullptr;           // Updates so far.
  float* workspace = nullptr;            // kAdamwWorkspaceBytes.
  double max_grad_norm = 1.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
};

inline constexpr std::size_t kAdamwWorkspaceBytes = 32;

/// Bytes that a perfect kernel moves: gradients read once; parameters and moments read and written
/// once, bf16 copies written once. `has_bf16`: gradients and copies of all are bf16.
std::int64_t minimum_bytes(const GradientNormArgs& args, bool has_bf16);
std::int64_t minimum_bytes(const AdamwArgs& args, bool has_bf16);

/// Only enqueue on `stream`. Throw ConfigError for arguments that are not allowed, DeviceError if a
/// launch fails.
void gradient_norm(const GradientNormArgs& args, cudaStream_t stream);
void adamw(const AdamwArgs& args, cudaStream_t stream);

}  // namespace steplens
