#include "harness/head_chunks.h"

namespace steplens {

RowChunks head_chunks(std::int64_t num_rows) {
  if (num_rows <= 0) return {};
  const std::int64_t num_chunks = (num_rows + kMaxHeadRows - 1) / kMaxHeadRows;
  const std::int64_t rows = (num_rows + num_chunks - 1) / num_chunks;
  // Rounding up may leave nothing for the last one.
  return {.num_chunks = (num_rows + rows - 1) / rows, .rows_per_chunk = rows};
}

}  // namespace steplens
