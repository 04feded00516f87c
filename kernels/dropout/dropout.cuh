#pragma once

#include "kernels/dropout/dropout.h"

namespace steplens {

/// Multiplies by their factors kWidth elements from flat index `first` on: 8, or 4 or 1 of those 8
/// that share a draw. `first` is a multiple of kWidth.
template <int kWidth>
__device__ inline void drop(const DropoutDraw& draw, std::int64_t first, float (&values)[kWidth]) {
  static_assert(8 % kWidth == 0);
  const PhiloxWords words = draw.words(static_cast<std::uint64_t>(first) / 8);
  if constexpr (kWidth == 8) {
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] *= draw.factor(words, i);
  } else {
    // Indices that the compiler knows: an array in registers has no others.
    const int offset = static_cast<int>(first % 8);
#pragma unroll
    for (int group = 0; group < 8; group += kWidth) {
      if (group != offset) continue;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] *= draw.factor(words, group + i);
    }
  }
}

}  // namespace steplens
