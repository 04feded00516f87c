#include "harness/head_chunks.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

TEST(HeadChunks, AreEqualAndCoverAllRows) {
  for (const std::int64_t num_rows :
       {std::int64_t{1}, std::int64_t{7}, kMaxHeadRows - 1, kMaxHeadRows, kMaxHeadRows + 1,
        4 * kMaxHeadRows, 10 * kMaxHeadRows + 3}) {
    const RowChunks chunks = head_chunks(num_rows);
    EXPECT_GE(chunks.rows_per_chunk, 1);
    EXPECT_LE(chunks.rows_per_chunk, kMaxHeadRows) << num_rows;
    EXPECT_GE(chunks.num_chunks * chunks.rows_per_chunk, num_rows);
    EXPECT_LT((chunks.num_chunks - 1) * chunks.rows_per_chunk, num_rows) << "an empty chunk";
  }
  // 32 rows of 1024 tokens: four pieces. One row more than fits: two halves, not 8192 and 1.
  EXPECT_EQ(head_chunks(32768).num_chunks, 4);
  EXPECT_EQ(head_chunks(32768).rows_per_chunk, 8192);
  EXPECT_EQ(head_chunks(8193).num_chunks, 2);
  EXPECT_EQ(head_chunks(8193).rows_per_chunk, 4097);
  EXPECT_EQ(head_chunks(0).num_chunks, 0);
}

}  // namespace
}  // namespace steplens
