#include <algorithm>
#include <numeric>

#include "kernels/adamw/adamw.h"

namespace steplens {
namespace {

std::int64_t sum(std::span<const std::int64_t> numels) {
  return std::accumulate(numels.begin(), numels.end(), std::int64_t{0});
}

}  // namespace

std::vector<TensorChunk> make_chunks(std::span<const std::int64_t> numels) {
  std::vector<TensorChunk> chunks;
  for (std::size_t i = 0; i < numels.size(); ++i) {
    for (std::int64_t first = 0; first < numels[i]; first += kChunkElements) {
      chunks.push_back(
          {.tensor_index = static_cast<std::int32_t>(i),
           .num_elements = static_cast<std::int32_t>(std::min(kChunkElements, numels[i] - first)),
           .first_element = first});
    }
  }
  return chunks;
}

std::int64_t minimum_bytes(const GradientNormArgs& args, bool has_bf16) {
  return sum(args.table.numels) * (has_bf16 ? 2 : 4);
}

std::int64_t minimum_bytes(const AdamwArgs& args, bool has_bf16) {
  // Gradient, parameter, two moments; the last three there and back, and the copy.
  return sum(args.table.numels) * ((has_bf16 ? 2 : 4) + 3 * 8 + (has_bf16 ? 2 : 0));
}

}  // namespace steplens
