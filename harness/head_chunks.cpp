#include "harness/head_chunks.h"

namespace steplens {

RowChunks head_chunks(std::int64_t num_rows, std::int64_t max_rows) {
  if (num_rows <= 0) return {};
  if (max_rows <= 0) max_rows = num_rows;
  const std::int64_t least_chunks = num_rows / max_rows + (num_rows % max_rows != 0 ? 1 : 0);
  const std::int64_t rows = num_rows / least_chunks + (num_rows % least_chunks != 0 ? 1 : 0);
  // Rounding up may leave nothing for the last ones.
  return {.num_chunks = (num_rows + rows - 1) / rows, .rows_per_chunk = rows};
}

}  // namespace steplens
