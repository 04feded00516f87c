#pragma once

#include <cstdint>

namespace steplens {

/// Rows whose logits loss=fused has at a time: enough for large products, and at a vocabulary of
/// 50,304 their logits take 0.8 GB in bf16.
inline constexpr std::int64_t kMaxHeadRows = 8192;

/// Equal pieces of `num_rows` rows, the last perhaps shorter, each of at most kMaxHeadRows.
struct RowChunks {
  std::int64_t num_chunks = 0;
  std::int64_t rows_per_chunk = 0;
};
RowChunks head_chunks(std::int64_t num_rows);

}  // namespace steplens
