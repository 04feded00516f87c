#include "harness/ranks/world_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using testing::HasSubstr;

BlockRecord rank(int number, std::int64_t step_ns, std::int64_t num_tokens, double loss) {
  BlockRecord record{.rank = number, .world_size = 2};
  record.data_hash = "data" + std::to_string(number);
  record.data_set_hash = "set";
  record.weights_hash = "first";
  record.final_weights_hash = "last";
  record.steps = {.step_wall_ns = {step_ns},
                  .num_positions = {num_tokens + 1},
                  .num_valid_tokens = {num_tokens},
                  .num_loss_tokens = {num_tokens - 1},
                  .loss = {loss},
                  .grad_norm = {2.0},
                  .lr = {0.1},
                  .data_wait_ns = {10 * number}};
  return record;
}

TEST(RecordOfWorld, AddsTokensAndLossesAndKeepsRank0sClock) {
  const BlockRecord world = record_of_world({rank(0, 900, 10, 1.5), rank(1, 1000, 4, 0.5)}, "all");
  EXPECT_EQ(world.status, BlockStatus::kOk);
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.steps.num_positions[0], 16);
  EXPECT_EQ(world.steps.num_valid_tokens[0], 14);
  EXPECT_EQ(world.steps.num_loss_tokens[0], 12);
  EXPECT_DOUBLE_EQ(world.steps.loss[0], 2.0);
  EXPECT_DOUBLE_EQ(world.steps.grad_norm[0], 2.0);
  EXPECT_EQ(world.steps.step_wall_ns[0], 900);
  EXPECT_EQ(world.steps.data_wait_ns[0], 10);
  EXPECT_EQ(world.data_hash, "all");
  EXPECT_EQ(world.evidence["ranks"][1]["num_valid_tokens"], 4);
  EXPECT_EQ(world.evidence["ranks"][1]["mean_step_wall_ns"], 1000.0);
  EXPECT_DOUBLE_EQ(world.evidence["rank_skew_ratio"].get<double>(), 0.1);
}

TEST(RecordOfWorld, HasEnergyAndClockOfEachRanksGpu) {
  BlockRecord first = rank(0, 1, 10, 1.5);
  BlockRecord second = rank(1, 1, 4, 0.5);
  first.samples = {{"energy_j", 20.5}, {"mean_sm_clock_mhz", 1980}, {"num_samples", 7}};
  second.samples = {{"energy_j", nullptr}};
  const BlockRecord world = record_of_world({first, second}, "all");
  EXPECT_EQ(world.samples, first.samples);
  EXPECT_EQ(world.evidence["ranks"][0]["energy_j"], 20.5);
  EXPECT_EQ(world.evidence["ranks"][0]["mean_sm_clock_mhz"], 1980);
  EXPECT_FALSE(world.evidence["ranks"][0].contains("num_samples"));
  EXPECT_TRUE(world.evidence["ranks"][1]["energy_j"].is_null());
}

TEST(RecordOfWorld, IsInvalidIfRanksContradict) {
  BlockRecord other = rank(1, 1, 4, 0.5);
  other.final_weights_hash = "another";
  const BlockRecord world = record_of_world({rank(0, 1, 10, 1.5), other}, "all");
  EXPECT_EQ(world.status, BlockStatus::kInvalid);
  EXPECT_THAT(world.reason, HasSubstr("rank 1 ended with other weights than rank 0"));
  other = rank(1, 1, 4, 0.5);
  other.steps = {};
  EXPECT_THAT(record_of_world({rank(0, 1, 10, 1.5), other}, "all").reason,
              HasSubstr("rank 1 did another number of steps"));
}

TEST(RecordOfWorld, TakesTheFirstStatusThatIsNotOk) {
  BlockRecord other = rank(1, 1, 4, 0.5);
  other.status = BlockStatus::kNan;
  other.reason = "measured step 0: loss nan";
  const BlockRecord world = record_of_world({rank(0, 1, 10, 1.5), other}, "all");
  EXPECT_EQ(world.status, BlockStatus::kNan);
  EXPECT_EQ(world.reason, "rank 1: measured step 0: loss nan");
}

}  // namespace
}  // namespace steplens
