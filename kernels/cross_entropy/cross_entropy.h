#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <cuda_runtime_api.h>

#include "kernels/vector.h"

namespace steplens {

/// Softmax cross-entropy of each row with its gradient, in place, in one pass:
///
///   losses[n]    = log(sum_v exp(logits[n, v])) - logits[n, targets[n]]
///   logits[n, v] = scale * (softmax(logits[n])[v] - [v = targets[n]])
///
/// A row whose target is `ignore_index` has loss 0 and gradient 0; one whose target is no column
/// has loss NaN. Arithmetic is fp32. Row-major, device memory, any N, V and alignment;
/// deterministic.
struct CrossEntropyArgs {
  void* logits = nullptr;                 // (N, V) of `type`; overwritten with the gradient.
  const std::int64_t* targets = nullptr;  // (N)
  float* losses = nullptr;                // (N); overwritten.
  float scale = 1;                        // Of the gradient, not of the losses.
  std::int64_t N = 0;                     // Rows: positions.
  std::int64_t V = 0;                     // Vocabulary, 1 to 2^31 - 1.
  std::int64_t ignore_index = -100;
  ElementType type = ElementType::kFloat32;
};

/// Bytes that a perfect kernel moves: logits read once and written once.
constexpr std::int64_t minimum_bytes(const CrossEntropyArgs& args) {
  return args.N * (2 * args.V * element_bytes(args.type) + 12);
}

/// Exponentials, subtractions, additions and products: twice an exponential of a difference, a sum,
/// a product and the difference of the gradient.
constexpr std::int64_t flops(const CrossEntropyArgs& args) { return 7 * args.N * args.V; }

/// One implementation. `launch` only enqueues on `stream`; it throws ConfigError for arguments that
/// are not allowed, DeviceError if the launch fails.
struct CrossEntropyVariant {
  std::string_view name;
  std::string_view idea;  // What it adds over the variant before it.
  bool (*is_applicable)(const CrossEntropyArgs& args);
  void (*launch)(const CrossEntropyArgs& args, cudaStream_t stream);
};

/// Slowest first; the first is applicable to all arguments.
std::span<const CrossEntropyVariant> cross_entropy_variants();

/// Launches the last applicable variant.
void cross_entropy(const CrossEntropyArgs& args, cudaStream_t stream);

}  // namespace steplens
