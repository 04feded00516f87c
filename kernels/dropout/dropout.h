#pragma once

#include <cstdint>
#include <string_view>

#include <cuda_runtime_api.h>

#include "kernels/dropout/philox.h"
#include "kernels/vector.h"

namespace steplens {

/// Which elements of one tensor are dropped. Nothing is stored: forward and backward, a recomputed
/// forward and another kernel draw the same from these numbers and an element's flat index i:
///
///   word(i) = 16 bits: number i % 8 of philox(counter = (i / 8, call_index, step), key = seed)
///   kept(i) = word(i) >= threshold,   threshold = round(probability * 2^16)
///
/// Kept elements are multiplied by 2^16 / (2^16 - threshold): what is dropped on average is made up
/// for exactly. A Philox word gives its low half first; i / 8 counts in 64 bits, step modulo 2^32.
struct DropoutMask {
  double probability = 0;  // Of being dropped, less than 1; 0: no dropout.
  std::uint64_t seed = 0;
  const std::int64_t* step = nullptr;  // One value, where the tensor lies; null: 0.
  std::uint32_t call_index = 0;        // Of this use within the step.

  SL_EVERYWHERE constexpr bool drops() const { return probability > 0; }
};

/// A mask's numbers, ready to draw with.
struct DropoutDraw {
  PhiloxKey key;
  std::uint32_t call_index, step, threshold;
  float scale;

  /// Of the elements 8 group to 8 group + 7.
  SL_EVERYWHERE constexpr PhiloxWords words(std::uint64_t group) const {
    return philox({{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                    call_index, step}},
                  key);
  }
  /// What element `index`, 0 to 7, of a group is multiplied by.
  SL_EVERYWHERE constexpr float factor(const PhiloxWords& group, int index) const {
    const std::uint32_t word = group.words[index / 2] >> (index % 2 * 16) & 0xffff;
    return word >= threshold ? scale : 0.0f;
  }
};

/// Reads `mask.step`.
SL_EVERYWHERE constexpr DropoutDraw make_draw(const DropoutMask& mask) {
  const auto threshold = static_cast<std::uint32_t>(mask.probability * 65536 + 0.5);
  return {
      .key = {{static_cast<std::uint32_t>(mask.seed), static_cast<std::uint32_t>(mask.seed >> 32)}},
      .call_index = mask.call_index,
      .step = mask.step == nullptr ? 0 : static_cast<std::uint32_t>(*mask.step),
      .threshold = threshold,
      .scale = 65536.0f / static_cast<float>(65536 - threshold)};
}

/// y[i] = x[i] * factor(i): forward, and backward of its own gradient. Any alignment.
struct DropoutArgs {
  const void* x = nullptr;  // (count) of `type`.
  void* y = nullptr;        // (count) of `type`; may be x.
  std::int64_t count = 0;
  DropoutMask mask;
  ElementType type = ElementType::kFloat32;
};

/// Bytes that a perfect kernel moves: x read once, y written once.
constexpr std::int64_t minimum_bytes(const DropoutArgs& args) {
  return 2 * args.count * element_bytes(args.type);
}

/// Throws ConfigError of `op` unless 0 <= probability <= 1 - 2^-16.
void check_dropout(const DropoutMask& mask, std::string_view op);

/// Only enqueues on `stream`. Throws ConfigError for arguments that are not allowed, DeviceError if
/// the launch fails.
void dropout(const DropoutArgs& args, cudaStream_t stream);

/// The same on the host, in the calling thread: all pointers are the host's, elements fp32.
void dropout_on_host(const DropoutArgs& args);

}  // namespace steplens
