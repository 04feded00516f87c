#include "reports/communication/communication.h"

#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trace/merge_ranks.h"
#include "reports/communication/communication_parts.h"

namespace steplens {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

constexpr std::string_view kBackward = "step/micro-step/backward/block 0/mlp";

// Two steps of 200 ns. In each 100 ns of computation, and an all-reduce that begins
// `collective_ns` after the step and ends 40 ns behind the computation.
Trace rank_trace(std::int64_t collective_ns) {
  TraceBuilder builder;
  for (int step = 0; step < 3; ++step) {
    const std::int64_t start_ns = 200 * step;
    builder.trace().steps.push_back({.start_ns = start_ns, .end_ns = start_ns + 200});
    builder.kernel("gemm", start_ns, start_ns + 100, step, kBackward);
    if (step == 2) break;
    builder
        .kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start_ns + collective_ns, start_ns + 140,
                step, kBackward)
        .stream_id = 20;
  }
  return std::move(builder.trace());
}

Trace two_ranks() {
  std::vector<Trace> ranks;
  ranks.push_back(rank_trace(60));
  ranks.push_back(rank_trace(70));
  return merge_ranks(std::move(ranks));
}

TEST(ComputeCommunication, SplitsWhatComputationHides) {
  const CommunicationUse use = compute_communication(two_ranks());
  ASSERT_EQ(use.ranks.size(), 2u);
  EXPECT_DOUBLE_EQ(use.ranks[0].step_ns, 200);
  EXPECT_DOUBLE_EQ(use.ranks[0].communication_ns, 80);
  EXPECT_DOUBLE_EQ(use.ranks[0].exposed_ns, 40);
  EXPECT_DOUBLE_EQ(use.ranks[0].overlapped_ns(), 40);
  EXPECT_DOUBLE_EQ(use.ranks[1].communication_ns, 70);
  EXPECT_DOUBLE_EQ(use.ranks[1].exposed_ns, 40);
}

TEST(ComputeCommunication, CountsCollectivesThatAreAtLeastHalfHidden) {
  const CommunicationUse use = compute_communication(two_ranks());
  // 40 of 80 ns on rank 0, 30 of 70 on rank 1.
  EXPECT_GT(use.ranks[0].num_collectives, 0);
  EXPECT_DOUBLE_EQ(use.ranks[0].num_hidden_collectives, use.ranks[0].num_collectives);
  EXPECT_DOUBLE_EQ(use.ranks[1].num_hidden_collectives, 0);
}

TEST(ComputeCommunication, MeasuresHowMuchLaterTheLastRankBegan) {
  EXPECT_THAT(compute_communication(two_ranks()).start_skew_ns, Optional(DoubleEq(10)));
  EXPECT_EQ(compute_communication(rank_trace(60)).start_skew_ns, std::nullopt);
}

TEST(ComputeCommunication, ListsTheAllReducesOfOneStep) {
  EXPECT_THAT(compute_communication(two_ranks()).timeline,
              ElementsAre(Collective{.start_ns = 60, .duration_ns = 80, .exposed_ns = 40}));
}

TEST(ComputeCommunication, IsEmptyWhereNothingWasSent) {
  TraceBuilder builder;
  builder.kernel("gemm", 0, 100, 0, kBackward);
  // On a CPU it is only put into the queue of the thread that sends.
  builder.cpu_operator("c10d::allreduce_", 100, 110, 0, kBackward);
  EXPECT_TRUE(compute_communication(builder.trace()).ranks.empty());
}

// L 1, d 2, one head of 2, f 4, V 10: 20 + 20 (embedding, head) + 12 + 4 + 16 + 8 + 3 norms of 2.
RunConfig tiny() {
  RunConfig config;
  config.shape = {.num_layers = 1,
                  .d_model = 2,
                  .num_heads = 1,
                  .num_kv_heads = 1,
                  .head_dim = 2,
                  .ffn_width = 4,
                  .vocab_size = 10};
  config.world_size = 4;
  config.num_accumulation = 3;
  return config;
}

TEST(GradientBytes, CountsWhatTrainsInTheTypeThatTravels) {
  RunConfig config = tiny();
  EXPECT_EQ(gradient_bytes(config), 86 * 4);
  config.comm_dtype = CommDtype::kBf16;
  EXPECT_EQ(gradient_bytes(config), 86 * 2);
  config.frozen = Frozen::kEmbeddings;
  EXPECT_EQ(gradient_bytes(config), 66 * 2);
  config = tiny();
  config.weights = Weights::kBf16Master;
  EXPECT_EQ(gradient_bytes(config), 80 * 2 + 6 * 4) << "norms stay fp32";
}

TEST(RingBytes, FollowTheFormulaOfARing) {
  EXPECT_DOUBLE_EQ(ring_bytes(100, 1), 0);
  EXPECT_DOUBLE_EQ(ring_bytes(100, 2), 100);
  EXPECT_DOUBLE_EQ(ring_bytes(100, 4), 150);
  RunConfig config = tiny();
  EXPECT_DOUBLE_EQ(ring_bytes_per_step(config), 1.5 * 344 * 3);
  config.no_sync = true;
  EXPECT_DOUBLE_EQ(ring_bytes_per_step(config), 1.5 * 344);
}

TEST(CommunicationTable, ComparesBytesWithTheFormula) {
  const TracedArm traced{.arm = "baseline", .communication = compute_communication(two_ranks())};
  RunConfig config = tiny();
  config.world_size = 2;
  config.num_accumulation = 1;
  const RankedArm arm{
      .traced = &traced, .config = config, .all_reduce_bytes = {344}, .rank_skew_ratio = 0.25};
  const Table table = communication_table({arm});
  ASSERT_EQ(table.rows.size(), 1u);
  const auto cell = [&](std::string_view header) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].header == header) return table.rows[0][i];
    }
    return std::string("no such column");
  };
  EXPECT_EQ(cell("/ formula"), "1.000");
  EXPECT_EQ(cell("communication"), "80.0 ns");
  EXPECT_EQ(cell("hidden"), "40.0 ns");
  EXPECT_EQ(cell("bus bandwidth"), "4.3 GB/s") << "344 bytes in 80 ns";
}

}  // namespace
}  // namespace steplens
