#include "workloads/catalog/batcher.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "tests/catalog/token_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workloads/catalog/data_hash.h"

namespace steplens {
namespace {

using testing::config_error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kSeed = 1;

RunConfig config_with(Batching batching, std::int64_t sequence_length, std::int64_t global_batch) {
  RunConfig config;
  config.shape = {.num_layers = 1,
                  .d_model = 2,
                  .num_heads = 1,
                  .num_kv_heads = 1,
                  .head_dim = 2,
                  .ffn_width = 2,
                  .vocab_size = 200000};
  config.batching = batching;
  config.sequence_length = sequence_length;
  config.global_batch_size = global_batch;
  config.seed = kSeed;
  return config;
}

class BatcherTest : public testing::FolderTest {
 protected:
  // Three spans of T = 4: [1 2 3 9], [4 5 9 6], [7 8 1 2]; 9 ends documents. With kSeed the first
  // epoch visits them as 1, 0, 2 and the second as 0, 2, 1 (worked out in Python).
  std::filesystem::path small_path() const {
    const std::vector<std::uint16_t> tokens = {1, 2, 3, 9, 4, 5, 9, 6, 7, 8, 1, 2, 3};
    const auto path = write_tokens("small.bin", tokens);
    write_info(path, tokens, 10, 9);
    return path;
  }

  // Token i of the file is i + 2 unless a document ends there (1): so a token names its position.
  // Lengths of documents run through 1 .. 97 in a fixed mixed order.
  std::filesystem::path large_path() const {
    std::vector<std::uint32_t> tokens;
    for (std::size_t document = 0; tokens.size() < 20000; ++document) {
      for (std::size_t i = document * 37 % 97; i > 0; --i) {
        tokens.push_back(static_cast<std::uint32_t>(tokens.size() + 2));
      }
      tokens.push_back(1);
    }
    const auto path = write_tokens("large.bin", tokens);
    write_info(path, tokens, 100000, 1);
    return path;
  }
};

// Computed by a separate Python program; tests/scripts/data_parity_test.py has the same values.
TEST(Permutation, GivesSameOrderAsPython) {
  EXPECT_THAT(permutation(10, 1, 0), ElementsAre(4, 2, 1, 3, 7, 9, 5, 0, 6, 8));
  EXPECT_THAT(permutation(10, 1, 1), ElementsAre(3, 8, 0, 1, 7, 2, 4, 9, 5, 6));
  EXPECT_THAT(permutation(10, 2, 0), ElementsAre(9, 5, 3, 7, 4, 8, 1, 0, 2, 6));
  EXPECT_THAT(permutation(5, 7, (std::uint64_t{1} << 63) + 4), ElementsAre(3, 4, 0, 1, 2));
  const auto large = permutation(1000, 12345, 3);
  EXPECT_THAT(std::vector(large.begin(), large.begin() + 8),
              ElementsAre(743, 95, 627, 844, 152, 467, 456, 5));
}

TEST(Permutation, HoldsEachItemOnce) {
  for (const std::int64_t n : {1, 2, 3, 100}) {
    auto items = permutation(n, 99, 5);
    std::ranges::sort(items);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(n));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(items, expected);
  }
}

TEST_F(BatcherTest, PackedRowsAreSpansAndPredictTheNextToken) {
  const TokenFile file(small_path());
  const Batcher batcher(file, config_with(Batching::kPacked, 4, 3), {0, 1}, 0, 1);
  const StepBatch step = batcher.step(0);
  ASSERT_EQ(step.micro_batches.size(), 1);
  const MicroBatch& batch = step.micro_batches[0];
  EXPECT_EQ(batch.num_rows, 3);
  EXPECT_EQ(batch.row_length, 4);
  EXPECT_THAT(batch.inputs, ElementsAre(4, 5, 9, 6, 1, 2, 3, 9, 7, 8, 1, 2));
  EXPECT_THAT(batch.targets, ElementsAre(5, 9, 6, 7, 2, 3, 9, 4, 8, 1, 2, 3));
  EXPECT_EQ(step.num_positions, 12);
  EXPECT_EQ(step.num_valid_tokens, 12);
  EXPECT_EQ(step.num_loss_tokens, 12);
  EXPECT_EQ(step.num_loss_tokens_all_ranks, 12);
  EXPECT_THAT(batcher.span_offsets(), ElementsAre(4, 0, 8));
}

TEST_F(BatcherTest, LeavesOutTheLastSpanThatHasNoTarget) {
  // 12 tokens: the third span's last target would be token 12, which does not exist.
  const std::vector<std::uint16_t> tokens = {1, 2, 3, 9, 4, 5, 9, 6, 7, 8, 1, 2};
  const TokenFile file(write_tokens("x.bin", tokens));
  const Batcher batcher(file, config_with(Batching::kPacked, 4, 2), {0, 3}, 0, 1);
  for (const std::int64_t offset : batcher.span_offsets()) EXPECT_LT(offset, 8);
}

TEST_F(BatcherTest, GoesOnIntoTheNextEpochWithAnotherOrder) {
  const TokenFile file(small_path());
  const Batcher batcher(file, config_with(Batching::kPacked, 4, 2), {1, 2}, 0, 1);
  // Visits 2 .. 5: the last one of epoch 0 (2), then epoch 1 (0, 2, 1).
  EXPECT_THAT(batcher.span_offsets(), ElementsAre(8, 0, 8, 4));
  EXPECT_THAT(batcher.step(0).micro_batches[0].inputs, ElementsAre(7, 8, 1, 2, 1, 2, 3, 9));
  EXPECT_THAT(batcher.step(1).micro_batches[0].inputs, ElementsAre(7, 8, 1, 2, 4, 5, 9, 6));
}

TEST_F(BatcherTest, StepDoesNotDependOnWhereItsRegionBegins) {
  const TokenFile file(large_path());
  const RunConfig config = config_with(Batching::kPacked, 32, 8);
  const Batcher early(file, config, {0, 90}, 0, 1);
  const Batcher late(file, config, {83, 7}, 0, 1);
  EXPECT_EQ(early.step(85).micro_batches[0].inputs, late.step(2).micro_batches[0].inputs);
}

TEST_F(BatcherTest, PaddedRowsEndWithTheirDocument) {
  const TokenFile file(small_path());
  RunConfig config = config_with(Batching::kPadded, 4, 4);
  config.num_accumulation = 2;
  // Four visits 1, 0, 2, 0 give the pieces [4 5 9] [6] [1 2 3 9] [7 8 1 2] [1 2 3 9].
  const Batcher batcher(file, config, {0, 1}, 0, 1);
  const StepBatch step = batcher.step(0);
  ASSERT_EQ(step.micro_batches.size(), 2);
  EXPECT_THAT(step.micro_batches[0].inputs, ElementsAre(4, 5, 9, 0, 6, 0, 0, 0));
  EXPECT_THAT(step.micro_batches[0].targets, ElementsAre(5, 9, -100, -100, 7, -100, -100, -100));
  EXPECT_EQ(step.micro_batches[0].num_valid_tokens, 4);
  EXPECT_EQ(step.micro_batches[0].num_loss_tokens, 3);
  EXPECT_THAT(step.micro_batches[1].inputs, ElementsAre(1, 2, 3, 9, 7, 8, 1, 2, 1, 2, 3, 9));
  EXPECT_THAT(step.micro_batches[1].targets, ElementsAre(2, 3, 9, -100, 8, 1, 2, 3, 2, 3, 9, -100));
  EXPECT_EQ(step.num_positions, 20);
  EXPECT_EQ(step.num_valid_tokens, 16);
  EXPECT_EQ(step.num_loss_tokens, 13);
}

TEST_F(BatcherTest, BucketedRowsAreSortedByLength) {
  const TokenFile file(small_path());
  RunConfig config = config_with(Batching::kBucketed, 4, 4);
  config.num_accumulation = 2;
  // Lengths 1, 3, 4, 4, 4: eight of the sixteen tokens are in the first three rows.
  const Batcher batcher(file, config, {0, 1}, 0, 1);
  const StepBatch step = batcher.step(0);
  EXPECT_THAT(step.micro_batches[0].inputs, ElementsAre(6, 0, 0, 0, 4, 5, 9, 0, 1, 2, 3, 9));
  EXPECT_THAT(step.micro_batches[0].targets,
              ElementsAre(7, -100, -100, -100, 5, 9, -100, -100, 2, 3, 9, -100));
  EXPECT_THAT(step.micro_batches[1].inputs, ElementsAre(7, 8, 1, 2, 1, 2, 3, 9));
}

TEST_F(BatcherTest, BucketsAreCutWhereTheirTokensAreNearestToTheirShare) {
  const TokenFile file(small_path());
  RunConfig config = config_with(Batching::kBucketed, 4, 4);
  config.num_accumulation = 4;
  // Lengths 1, 3, 4, 4, 4; shares end at 4, 8 and 12 of 16 tokens.
  const StepBatch four = Batcher(file, config, {0, 1}, 0, 1).step(0);
  EXPECT_THAT(four.micro_batches[0].inputs, ElementsAre(6, 0, 0, 0, 4, 5, 9, 0));
  EXPECT_EQ(four.micro_batches[3].num_rows, 1);

  // Spans [1 9 1 2 3 4] and [5 6 9 1 2 9]: pieces of 2, 3, 3 and 4. The half of 12 lies between 5
  // and 8 tokens, nearer to 5.
  const std::vector<std::uint16_t> tokens = {1, 9, 1, 2, 3, 4, 5, 6, 9, 1, 2, 9, 1};
  const auto path = write_tokens("x.bin", tokens);
  write_info(path, tokens, 10, 9);
  const TokenFile uneven(path);
  config = config_with(Batching::kBucketed, 6, 2);
  config.num_accumulation = 2;
  const StepBatch two = Batcher(uneven, config, {0, 1}, 0, 1).step(0);
  EXPECT_EQ(two.micro_batches[0].num_valid_tokens, 5);
  EXPECT_EQ(two.micro_batches[1].num_valid_tokens, 7);
}

TEST_F(BatcherTest, BucketsRoundTheirLongestRowUpTo16AndKeepStepsEqual) {
  const TokenFile file(large_path());
  const RunConfig config = config_with(Batching::kBucketed, 72, 16);
  const Batcher batcher(file, config, {3, 4}, 0, 1);
  std::set<std::int64_t> row_lengths;
  for (std::int64_t i = 0; i < 4; ++i) {
    const StepBatch step = batcher.step(i);
    // Total 4 * 16 * 72; a bound is off by at most half a row at each end.
    EXPECT_NEAR(static_cast<double>(step.num_valid_tokens), 16 * 72, 72);
    const MicroBatch& batch = step.micro_batches[0];
    row_lengths.insert(batch.row_length);
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < batch.num_rows; ++row) {
      const auto begin = batch.inputs.begin() + row * batch.row_length;
      longest = std::max<std::int64_t>(
          longest, std::count_if(begin, begin + batch.row_length, [](auto t) { return t != 0; }));
    }
    EXPECT_LT(batch.row_length - longest, 16);
    EXPECT_TRUE(batch.row_length % 16 == 0 || batch.row_length == 72) << batch.row_length;
  }
  EXPECT_GT(row_lengths.size(), 1);
  EXPECT_EQ(*row_lengths.rbegin(), 72);
}

TEST_F(BatcherTest, BucketedStepsComeInSeededOrder) {
  const TokenFile file(large_path());
  const Batcher batcher(file, config_with(Batching::kBucketed, 64, 16), {3, 4}, 0, 1);
  std::map<double, std::int64_t> by_mean_length;
  for (std::int64_t i = 0; i < 4; ++i) {
    const MicroBatch batch = batcher.step(i).micro_batches[0];
    by_mean_length[static_cast<double>(batch.num_valid_tokens) /
                   static_cast<double>(batch.num_rows)] = i;
  }
  std::vector<std::int64_t> order;
  order.reserve(by_mean_length.size());
  for (const auto& [mean_length, i] : by_mean_length) order.push_back(i);
  // permutation(4, 1, 2^64 - 1 - 3) is 0, 3, 1, 2 (worked out in Python): bucket 1 is step 2, ...
  EXPECT_THAT(order, ElementsAre(0, 2, 3, 1));
}

struct Layout {
  Batching batching;
  std::int64_t num_accumulation;
  int world_size;
};

class AllLayouts : public BatcherTest, public ::testing::WithParamInterface<Layout> {};

TEST_P(AllLayouts, SeeEachPositionOnceAndPredictItsSuccessor) {
  constexpr std::int64_t kLength = 48;
  constexpr std::int64_t kGlobalBatch = 16;
  constexpr std::int64_t kSteps = 5;
  const auto [batching, num_accumulation, world_size] = GetParam();
  const TokenFile file(large_path());
  RunConfig config = config_with(batching, kLength, kGlobalBatch);
  config.num_accumulation = num_accumulation;
  config.world_size = world_size;

  std::vector<std::vector<StepBatch>> steps;  // By rank.
  for (int rank = 0; rank < world_size; ++rank) {
    const Batcher batcher(file, config, {2, kSteps}, rank, world_size);
    steps.emplace_back();
    for (std::int64_t i = 0; i < kSteps; ++i) steps.back().push_back(batcher.step(i));
  }

  std::int64_t num_valid_tokens = 0;
  std::int64_t num_document_ends = 0;
  std::set<std::int32_t> seen;
  for (std::size_t i = 0; i < kSteps; ++i) {
    std::int64_t num_loss_tokens = 0;
    for (const auto& rank : steps) {
      const StepBatch& step = rank[i];
      ASSERT_EQ(step.micro_batches.size(), static_cast<std::size_t>(num_accumulation));
      num_loss_tokens += step.num_loss_tokens;
      num_valid_tokens += step.num_valid_tokens;
      std::int64_t num_targets = 0;
      for (const MicroBatch& batch : step.micro_batches) {
        ASSERT_GE(batch.num_rows, 1);
        for (std::size_t at = 0; at < batch.inputs.size(); ++at) {
          const std::int32_t input = batch.inputs[at];
          const std::int32_t target = batch.targets[at];
          if (target != kIgnoredTarget) ++num_targets;
          if (input == 0) {
            EXPECT_EQ(target, kIgnoredTarget);
          } else if (input == 1) {
            ++num_document_ends;
            EXPECT_EQ(target == kIgnoredTarget, batching != Batching::kPacked);
          } else {
            EXPECT_TRUE(seen.insert(input).second) << input << " was seen twice";
            EXPECT_TRUE(target == input + 1 || target == 1) << input << " -> " << target;
          }
        }
      }
      EXPECT_EQ(step.num_loss_tokens, num_targets);
    }
    for (const auto& rank : steps) EXPECT_EQ(rank[i].num_loss_tokens_all_ranks, num_loss_tokens);
  }
  EXPECT_EQ(num_valid_tokens, kSteps * kGlobalBatch * kLength);
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()) + num_document_ends, num_valid_tokens);
}

INSTANTIATE_TEST_SUITE_P(
    Batcher, AllLayouts,
    ::testing::Values(Layout{Batching::kPacked, 1, 1}, Layout{Batching::kPacked, 4, 1},
                      Layout{Batching::kPacked, 2, 4}, Layout{Batching::kPadded, 1, 1},
                      Layout{Batching::kPadded, 4, 1}, Layout{Batching::kPadded, 4, 2},
                      Layout{Batching::kBucketed, 1, 1}, Layout{Batching::kBucketed, 4, 1},
                      Layout{Batching::kBucketed, 2, 4}),
    [](const auto& layout) {
      return std::string(name_of(layout.param.batching)) + "_accumulation_" +
             std::to_string(layout.param.num_accumulation) + "_world_" +
             std::to_string(layout.param.world_size);
    });

TEST_F(BatcherTest, PaddedStepsAndMicroBatchesDifferByAtMostOneRow) {
  const TokenFile file(large_path());
  RunConfig config = config_with(Batching::kPadded, 64, 8);
  config.num_accumulation = 3;
  config.global_batch_size = 9;
  const Batcher batcher(file, config, {0, 7}, 0, 1);
  std::set<std::int64_t> rows_per_step;
  for (std::int64_t i = 0; i < 7; ++i) {
    std::set<std::int64_t> rows_per_micro_batch;
    std::int64_t num_rows = 0;
    for (const MicroBatch& batch : batcher.step(i).micro_batches) {
      num_rows += batch.num_rows;
      rows_per_micro_batch.insert(batch.num_rows);
    }
    rows_per_step.insert(num_rows);
    EXPECT_LE(*rows_per_micro_batch.rbegin() - *rows_per_micro_batch.begin(), 1);
  }
  EXPECT_LE(*rows_per_step.rbegin() - *rows_per_step.begin(), 1);
}

TEST_F(BatcherTest, RanksTakeContiguousSharesOfEachPackedMicroBatch) {
  const TokenFile file(large_path());
  RunConfig config = config_with(Batching::kPacked, 16, 8);
  config.num_accumulation = 2;
  const StepBatch whole = Batcher(file, config, {1, 1}, 0, 1).step(0);
  config.world_size = 2;
  for (std::size_t m = 0; m < 2; ++m) {
    std::vector<std::int32_t> joined;
    for (int rank = 0; rank < 2; ++rank) {
      const StepBatch share = Batcher(file, config, {1, 1}, rank, 2).step(0);
      EXPECT_EQ(share.micro_batches[m].num_rows, 2);
      joined.insert(joined.end(), share.micro_batches[m].inputs.begin(),
                    share.micro_batches[m].inputs.end());
    }
    EXPECT_EQ(joined, whole.micro_batches[m].inputs);
  }
}

TEST_F(BatcherTest, AccumulationThatHoldsTheMicroBatchTakesMoreRows) {
  const TokenFile file(large_path());
  RunConfig config = config_with(Batching::kPacked, 16, 4);
  config.num_accumulation = 3;
  config.accumulation_holds = AccumulationHolds::kMicroBatch;
  const StepBatch step = Batcher(file, config, {0, 1}, 0, 1).step(0);
  ASSERT_EQ(step.micro_batches.size(), 3);
  for (const MicroBatch& batch : step.micro_batches) EXPECT_EQ(batch.num_rows, 4);
}

TEST_F(BatcherTest, ShortLastGroupKeepsItsOwnTokenCounts) {
  const TokenFile file(large_path());
  RunConfig config = config_with(Batching::kPacked, 16, 8);
  config.num_accumulation = 4;
  const Batcher batcher(file, config, {0, 2}, 0, 1, 5);
  EXPECT_EQ(batcher.step(0).num_loss_tokens, 8 * 16);
  const StepBatch last = batcher.step(1);
  ASSERT_EQ(last.micro_batches.size(), 3);
  EXPECT_EQ(last.micro_batches[0].num_rows, 2);
  EXPECT_EQ(last.micro_batches[1].num_rows, 2);
  EXPECT_EQ(last.micro_batches[2].num_rows, 1);
  EXPECT_EQ(last.num_loss_tokens, 5 * 16);
  EXPECT_EQ(last.num_loss_tokens_all_ranks, 5 * 16);
  EXPECT_EQ(batcher.span_offsets().size(), 13);
}

TEST_F(BatcherTest, SameStepFromManyThreads) {
  const TokenFile file(large_path());
  const Batcher batcher(file, config_with(Batching::kBucketed, 64, 8), {0, 4}, 0, 1);
  const StepBatch expected = batcher.step(2);
  std::vector<StepBatch> steps(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(steps.size());
    for (StepBatch& step : steps) threads.emplace_back([&] { step = batcher.step(2); });
  }
  for (const StepBatch& step : steps) {
    EXPECT_EQ(step.micro_batches[0].inputs, expected.micro_batches[0].inputs);
  }
}

TEST_F(BatcherTest, RefusesMicroBatchesWithoutRows) {
  const TokenFile file(small_path());
  RunConfig config = config_with(Batching::kPacked, 4, 4);
  config.num_accumulation = 2;
  config.world_size = 2;
  EXPECT_THAT(config_error_of([&] { const Batcher batcher(file, config, {0, 1}, 0, 2, 3); }),
              AllOf(HasSubstr("accumulation=2"), HasSubstr("step 0 has only 3 rows")));
  EXPECT_THAT(config_error_of([&] {
                const Batcher batcher(file, config_with(Batching::kPadded, 4, 4), {0, 1}, 0, 1, 3);
              }),
              HasSubstr("packed only"));
}

// With no document ends the pieces are the spans, so there are exactly as many as micro-batches.
TEST_F(BatcherTest, FindsOneRowForEachMicroBatchWhereThereAreJustEnough) {
  const TokenFile raw(write_tokens("raw.bin", std::vector<std::uint16_t>{1, 2, 3, 4, 5, 6, 7}));
  for (const Batching batching : {Batching::kPadded, Batching::kBucketed}) {
    RunConfig config = config_with(batching, 3, 8);
    config.num_accumulation = 8;
    const StepBatch step = Batcher(raw, config, {0, 1}, 0, 1).step(0);
    ASSERT_EQ(step.micro_batches.size(), 8);
    for (const MicroBatch& batch : step.micro_batches) EXPECT_EQ(batch.num_rows, 1);
  }
}

TEST_F(BatcherTest, RefusesWhatDoesNotFit) {
  const TokenFile file(small_path());
  RunConfig config = config_with(Batching::kPacked, 13, 1);
  EXPECT_THAT(config_error_of([&] { const Batcher batcher(file, config, {0, 1}, 0, 1); }),
              HasSubstr("sequence_length=13"));
  config = config_with(Batching::kPacked, 4, 2);
  EXPECT_THAT(config_error_of([&] { const Batcher batcher(file, config, {0, 1}, 0, 1, 3); }),
              HasSubstr("takes 1 to global_batch=2"));
  EXPECT_THAT(config_error_of([&] { const Batcher batcher(file, config, {0, 1}, 1, 2); }),
              HasSubstr("world_size=1: the block runs on 2 ranks"));
  config.shape.vocab_size = 9;
  EXPECT_THAT(config_error_of([&] { const Batcher batcher(file, config, {0, 1}, 0, 1); }),
              HasSubstr("vocab_size=9"));
}

TEST_F(BatcherTest, EmptyRegionHasNoSteps) {
  const TokenFile file(small_path());
  const Batcher batcher(file, config_with(Batching::kPacked, 4, 2), {5, 0}, 0, 1);
  EXPECT_TRUE(batcher.span_offsets().empty());
}

// The expected digests were computed with Python's hashlib from the rows of the tests above.
TEST_F(BatcherTest, DataHashIsTheShaOfInputsAndTargetsRowByRow) {
  const TokenFile file(small_path());
  for (const std::int64_t num_accumulation : {1, 3}) {
    RunConfig config = config_with(Batching::kPacked, 4, 3);
    config.num_accumulation = num_accumulation;
    DataHash hash;
    hash.add(Batcher(file, config, {0, 1}, 0, 1).step(0));
    EXPECT_EQ(hash.hex(), "f9b724ae9d60d9e803f0802d019870c9b8cb65849e906007c66dfa5ce257643c");
    EXPECT_EQ(hash.hex(), hash.hex());
  }
  DataHash hash;
  hash.add(Batcher(file, config_with(Batching::kPadded, 4, 3), {0, 1}, 0, 1).step(0));
  EXPECT_EQ(hash.hex(), "34900361507898e6e2d031e7293a37f49ff14ca3c6de237244ea6821d7d9eca6");
}

TEST_F(BatcherTest, DataSetHashIsFreeOfOrderAndBatching) {
  const TokenFile small(small_path());
  const Batcher batcher(small, config_with(Batching::kPacked, 4, 3), {0, 1}, 0, 1);
  EXPECT_EQ(data_set_hash(small, batcher.span_offsets(), 4),
            "a4c41abf8425860a9333c88425954ad640835cb10c30b9337acb21c892d24740");

  const TokenFile file(large_path());
  std::set<std::string> hashes;
  for (const Batching batching : {Batching::kPacked, Batching::kPadded, Batching::kBucketed}) {
    const Batcher region(file, config_with(batching, 32, 8), {0, 4}, 0, 1);
    std::vector<std::int64_t> offsets(region.span_offsets().begin(), region.span_offsets().end());
    hashes.insert(data_set_hash(file, offsets, 32));
    std::ranges::reverse(offsets);
    hashes.insert(data_set_hash(file, offsets, 32));
  }
  // Half as many steps of twice as many rows are the same data.
  const Batcher doubled(file, config_with(Batching::kPacked, 32, 16), {0, 2}, 0, 1);
  hashes.insert(data_set_hash(file, doubled.span_offsets(), 32));
  EXPECT_EQ(hashes.size(), 1);
  const Batcher next(file, config_with(Batching::kPacked, 32, 8), {4, 4}, 0, 1);
  hashes.insert(data_set_hash(file, next.span_offsets(), 32));
  EXPECT_EQ(hashes.size(), 2);
}

}  // namespace
}  // namespace steplens
