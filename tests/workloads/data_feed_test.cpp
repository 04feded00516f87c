#include "workloads/data_feed.h"

#include <atomic>
#include <stdexcept>

#include "tests/workloads/tiny_model.h"
#include <gtest/gtest.h>

namespace steplens {
namespace {

// Batch i: two micro-batches of different shapes, filled with numbers that say where they came
// from.
StepBatch numbered_batch(std::int64_t index) {
  StepBatch batch;
  for (std::int64_t m = 0; m < 2; ++m) {
    MicroBatch micro{.num_rows = m + 1, .row_length = 3 + index % 2};
    for (std::int64_t j = 0; j < micro.num_positions(); ++j) {
      micro.inputs.push_back(static_cast<std::int32_t>(1000 * index + 100 * m + j));
      micro.targets.push_back(static_cast<std::int32_t>(-(1000 * index + 100 * m + j)));
    }
    micro.num_valid_tokens = micro.num_positions() - 1;
    micro.num_loss_tokens = micro.num_positions() - 2;
    batch.num_positions += micro.num_positions();
    batch.num_valid_tokens += micro.num_valid_tokens;
    batch.num_loss_tokens += micro.num_loss_tokens;
    batch.micro_batches.push_back(micro);
  }
  batch.num_loss_tokens_all_ranks = 7 + index;
  return batch;
}

TEST(DataFeed, BringsEveryBatchInOrderWithItsShapesAndCounts) {
  for (const DataPath path : {DataPath::kSync, DataPath::kPrefetch}) {
    RunConfig config = tiny_config();
    config.data = path;
    // More batches than slots, so that slots of both lengths are used again.
    const auto feed = make_data_feed(config, &numbered_batch, 13);
    for (std::int64_t i = 0; i < 13; ++i) {
      const FedStep fed = feed->next();
      ASSERT_EQ(fed.step.micro_batches.size(), 2u);
      EXPECT_EQ(fed.step.num_loss_tokens, 7 + i);
      const std::int64_t length = 3 + i % 2;
      EXPECT_EQ(fed.num_positions, 3 * length);
      EXPECT_EQ(fed.num_valid_tokens, 3 * length - 2);
      EXPECT_EQ(fed.num_loss_tokens, 3 * length - 4);
      for (std::int64_t m = 0; m < 2; ++m) {
        const DeviceMicroBatch& micro = fed.step.micro_batches[static_cast<std::size_t>(m)];
        ASSERT_EQ(micro.tokens_BT.sizes(), at::IntArrayRef({m + 1, length}));
        for (std::int64_t j = 0; j < (m + 1) * length; ++j) {
          const std::int64_t value = 1000 * i + 100 * m + j;
          ASSERT_EQ(micro.tokens_BT.reshape({-1})[j].item<std::int64_t>(), value);
          ASSERT_EQ(micro.targets_BT.reshape({-1})[j].item<std::int64_t>(), -value);
        }
      }
    }
  }
}

TEST(DataFeed, ThrowsTheSourcesErrorWhereTheBatchIsAskedFor) {
  for (const DataPath path : {DataPath::kSync, DataPath::kPrefetch}) {
    RunConfig config = tiny_config();
    config.data = path;
    const auto feed = make_data_feed(
        config,
        [](std::int64_t index) {
          if (index == 2) throw std::runtime_error("cut short");
          return numbered_batch(index);
        },
        5);
    feed->next();
    feed->next();
    EXPECT_THROW(feed->next(), std::runtime_error);
  }
}

TEST(DataFeed, StopsItsThreadWhenItIsDestroyedEarly) {
  RunConfig config = tiny_config();
  std::atomic<int> num_made = 0;
  {
    const auto feed = make_data_feed(
        config,
        [&](std::int64_t index) {
          ++num_made;
          return numbered_batch(index);
        },
        1000);
    feed->next();
  }
  // The one in use and at most four slots ahead of it.
  EXPECT_LE(num_made, 5);
}

}  // namespace
}  // namespace steplens
