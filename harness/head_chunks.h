#pragma once

#include <cstdint>

namespace steplens {

/// Equal pieces of `num_rows` rows, the last perhaps shorter, each of at most `max_rows`; 0: one
/// piece. These are the rows whose logits loss=fused has at a time.
struct RowChunks {
  std::int64_t num_chunks = 0;
  std::int64_t rows_per_chunk = 0;
};
RowChunks head_chunks(std::int64_t num_rows, std::int64_t max_rows);

}  // namespace steplens
