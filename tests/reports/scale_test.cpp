#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/scale/scale_model.h"
#include "reports/scale/scale_parts.h"

namespace steplens {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One byte a nanosecond within 8 GPUs, half of that between hosts.
Links two_levels() {
  return {.name = "test",
          .source = "made up",
          .base_ns = 10,
          .compute_slowdown_ratio = 0,
          .memory_bytes_per_s = 1e9,
          .levels = {{.max_gpus = 8, .hop_ns = 1, .bytes_per_s = 1e9},
                     {.max_gpus = 0, .hop_ns = 5, .bytes_per_s = 0.5e9}}};
}

TEST(AllReduceNs, IsThatOfARingWithinAHost) {
  EXPECT_DOUBLE_EQ(all_reduce_ns(two_levels(), 100, 1), 0);
  EXPECT_DOUBLE_EQ(all_reduce_ns(two_levels(), 100, 2), 10 + 2 * 1 + 100);
  EXPECT_DOUBLE_EQ(all_reduce_ns(two_levels(), 100, 4), 10 + 2 * 3 + 150);
}

TEST(AllReduceNs, IsTheBetterOfRingAndTreeBetweenHosts) {
  // Two hosts: a ring of 14 near hops and 1 far one, 15/16 x 2 of the bytes at half the rate.
  EXPECT_DOUBLE_EQ(all_reduce_ns(two_levels(), 1600, 16), 10 + 2 * (14 + 5) + 6000);
  // 512 hosts and nothing to carry: 7 near hops and 9 far ones, there and back.
  EXPECT_DOUBLE_EQ(all_reduce_ns(two_levels(), 0, 4096), 10 + 2 * (7 + 9 * 5));
}

TEST(AllReduceNs, OfH200FitsWhatWasSeenBetweenTwo) {
  const Links links = links_named("h200-nvlink");
  const double kMiB = 1 << 20;
  EXPECT_NEAR(all_reduce_ns(links, 1 * kMiB, 2) / 29e3, 1, 0.08);
  EXPECT_NEAR(all_reduce_ns(links, 25 * kMiB, 2) / 110e3, 1, 0.08);
  EXPECT_NEAR(all_reduce_ns(links, 100 * kMiB, 2) / 379e3, 1, 0.08);
  EXPECT_NEAR(all_reduce_ns(links, 650 * kMiB, 2) / 2.137e6, 1, 0.08);
}

// V 1024, d 1024, f 1024, 8 heads of 128, two blocks: 2^20 parameters in embedding and head, 7 x
// 2^20 and two norms of 2^10 in a block.
RunConfig two_blocks() {
  RunConfig config;
  config.shape = {.num_layers = 2,
                  .d_model = 1024,
                  .num_heads = 8,
                  .num_kv_heads = 8,
                  .head_dim = 128,
                  .ffn_width = 1024,
                  .vocab_size = 1024};
  return config;
}
const BackwardParts kParts = {.head_ns = 1, .block_ns = {4, 3}, .embedding_ns = 2};

TEST(PlanBuckets, ClosesABucketOnceItHoldsItsLimit) {
  constexpr std::int64_t kM = 1 << 20, kK = 1 << 10;
  // The head fills the first MiB. 25 MiB are full with a block's last matrix; the norm before it
  // goes with the next block.
  EXPECT_THAT(plan_buckets(two_blocks(), kParts),
              ElementsAre(BucketPlan{.bytes = 4 * kM, .ready_ratio = 0.1},
                          BucketPlan{.bytes = 4 * (7 * kM + 2 * kK), .ready_ratio = 0.4},
                          BucketPlan{.bytes = 4 * (7 * kM + 2 * kK), .ready_ratio = 0.8},
                          BucketPlan{.bytes = 4 * (kM + kK), .ready_ratio = 1}));
}

TEST(PlanBuckets, KeepsTheBucketsWhereFewerBytesTravelOrLater) {
  RunConfig config = two_blocks();
  config.comm_dtype = CommDtype::kBf16;
  config.overlap = false;
  const std::vector<BucketPlan> buckets = plan_buckets(config, kParts);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].bytes, 2 << 20);
  EXPECT_DOUBLE_EQ(buckets[0].ready_ratio, 1);
}

StepModel worked_model() {
  return {.forward_ns = 100,
          .backward_ns = 200,
          .other_ns = 50,
          .num_accumulation = 2,
          .tokens_per_step = 1000,
          .buckets = {{.bytes = 100, .ready_ratio = 0.5}, {.bytes = 100, .ready_ratio = 1}}};
}
const Links kPlain = {.name = "plain",
                      .source = "made up",
                      .compute_slowdown_ratio = 0.5,
                      .memory_bytes_per_s = 1e9,
                      .levels = {{.max_gpus = 0, .hop_ns = 0, .bytes_per_s = 1e9}}};

TEST(Predict, AddsWhatIsExposedAndWhatSlowsComputation) {
  // The first bucket travels from 100 to 200 ns of the backward pass, the second from 200 to 300:
  // 100 ns exposed, 100 hidden that cost 50. Dividing reads and writes 200 bytes: 400 ns.
  const ScalePoint sync = predict(worked_model(), kPlain, 2, /*no_sync=*/false);
  EXPECT_DOUBLE_EQ(sync.communication_ns, 400);
  EXPECT_DOUBLE_EQ(sync.exposed_ns, 200);
  EXPECT_DOUBLE_EQ(sync.step_ns, 650 + 2 * 550);
  EXPECT_DOUBLE_EQ(sync.tokens_per_s, 2000 / 1750e-9);
  EXPECT_DOUBLE_EQ(sync.efficiency_ratio, 650.0 / 1750);
  EXPECT_DOUBLE_EQ(predict(worked_model(), kPlain, 2, /*no_sync=*/true).step_ns, 650 + 550);
}

TEST(Predict, LeavesOneGpuAlone) {
  const ScalePoint one = predict(worked_model(), kPlain, 1, /*no_sync=*/false);
  EXPECT_DOUBLE_EQ(one.step_ns, 650);
  EXPECT_DOUBLE_EQ(one.efficiency_ratio, 1);
}

TracedArm traced_step() {
  TraceBuilder builder;
  for (int step = 0; step < 2; ++step) {
    const std::int64_t start_ns = 1000 * step;
    builder.trace().steps.push_back({.start_ns = start_ns, .end_ns = start_ns + 1000});
    builder.kernel("gemm", start_ns, start_ns + 200, step, "step/micro-step/forward/block 0/mlp");
    builder.kernel("gemm", start_ns + 200, start_ns + 600, step,
                   "step/micro-step/backward/block 0/mlp");
    builder.kernel("adam", start_ns + 600, start_ns + 800, step, "step/optimizer");
  }
  return {.arm = "baseline",
          .breakdown = compute_breakdown(builder.trace()),
          .throughput_step_ns = 1600};
}

TEST(StepModelOf, StretchesPhasesToTheStepThatWasNotTraced) {
  RunConfig config = two_blocks();
  config.num_accumulation = 2;
  const StepModel model = step_model_of(config, traced_step());
  // 200 + 400 + 200 of the trace are 1600.
  EXPECT_DOUBLE_EQ(model.forward_ns, 200);
  EXPECT_DOUBLE_EQ(model.backward_ns, 400);
  EXPECT_DOUBLE_EQ(model.other_ns, 400);
  EXPECT_DOUBLE_EQ(model.step_ns(), 1600);
  EXPECT_EQ(model.tokens_per_step, 8 * 128);
}

TEST(StepModelOf, RefusesSeveralRanks) {
  RunConfig config = two_blocks();
  config.world_size = 2;
  try {
    step_model_of(config, traced_step());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("arm=baseline: was measured on 2 ranks"));
  }
}

TEST(ScaleTable, HasNoSyncWhereItDiffers) {
  RunConfig config = two_blocks();
  const std::vector<std::int64_t> counts = gpu_counts(4096);
  EXPECT_EQ(counts.size(), 13u);
  EXPECT_EQ(scale_table(scale_curve(config, traced_step(), kPlain, counts)).columns.size(), 6u);
  config.num_accumulation = 4;
  const ScaleCurve curve = scale_curve(config, traced_step(), kPlain, counts);
  EXPECT_EQ(scale_table(curve).columns.size(), 9u);
  EXPECT_THAT(scale_svg(curve), HasSubstr("no_sync=on"));
  EXPECT_THAT(scale_assumptions(curve), HasSubstr("plain (made up)"));
}

std::string refusal_of(const nlohmann::json& json) {
  try {
    links_from_json(json, "links.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(LinksFromJson, NamesWhatIsWrong) {
  const nlohmann::json good = {
      {"name", "mine"},
      {"source", "measured"},
      {"base_ns", 0},
      {"compute_slowdown_ratio", 0.1},
      {"memory_bytes_per_s", 1e12},
      {"levels", {{{"max_gpus", 0}, {"hop_ns", 1}, {"bytes_per_s", 1e9}}}}};
  EXPECT_EQ(refusal_of(good), "");
  nlohmann::json bad = good;
  bad["levels"][0]["bytes_per_s"] = 0;
  EXPECT_EQ(refusal_of(bad), "links.json: bytes_per_s=0: takes a number > 0");
  bad = good;
  bad["compute_slowdown_ratio"] = 2;
  EXPECT_THAT(refusal_of(bad), HasSubstr("compute_slowdown_ratio=2: takes a number from 0 to 1"));
  bad = good;
  bad["levels"][0]["max_gpus"] = 8;
  EXPECT_THAT(refusal_of(bad), HasSubstr("takes 0 (any number) in the last level"));
  bad = good;
  bad.erase("source");
  EXPECT_THAT(refusal_of(bad), HasSubstr("source: takes a text"));
  EXPECT_THROW(links_named("h200-nvlinc"), ConfigError);
}

}  // namespace
}  // namespace steplens
