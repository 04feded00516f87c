#include "harness/head_chunks.h"

#include <limits>

#include <gtest/gtest.h>

namespace steplens {
namespace {

TEST(HeadChunks, AreEqualAndCoverAllRows) {
  for (const std::int64_t max_rows : {1, 7, 1000, 8192, 32768}) {
    for (const std::int64_t num_rows : {std::int64_t{1}, std::int64_t{7}, max_rows, max_rows + 1,
                                        4 * max_rows, 10 * max_rows + 3}) {
      const RowChunks chunks = head_chunks(num_rows, max_rows);
      EXPECT_GE(chunks.rows_per_chunk, 1);
      EXPECT_LE(chunks.rows_per_chunk, max_rows) << num_rows;
      EXPECT_GE(chunks.num_chunks * chunks.rows_per_chunk, num_rows);
      EXPECT_LT((chunks.num_chunks - 1) * chunks.rows_per_chunk, num_rows) << "an empty chunk";
    }
  }
  // 32 rows of 1024 tokens: four pieces. One row more than fits: two halves, not 8192 and 1.
  EXPECT_EQ(head_chunks(32768, 8192).num_chunks, 4);
  EXPECT_EQ(head_chunks(32768, 8192).rows_per_chunk, 8192);
  EXPECT_EQ(head_chunks(8193, 8192).num_chunks, 2);
  EXPECT_EQ(head_chunks(8193, 8192).rows_per_chunk, 4097);
  EXPECT_EQ(head_chunks(0, 8192).num_chunks, 0);
}

TEST(HeadChunks, ZeroAndMoreThanThereAreMakeOnePiece) {
  for (const std::int64_t max_rows :
       {std::int64_t{0}, std::int64_t{32768}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(head_chunks(32768, max_rows).num_chunks, 1) << max_rows;
    EXPECT_EQ(head_chunks(32768, max_rows).rows_per_chunk, 32768) << max_rows;
  }
  EXPECT_EQ(head_chunks(0, 0).num_chunks, 0);
}

}  // namespace
}  // namespace steplens
