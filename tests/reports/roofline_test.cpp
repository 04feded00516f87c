#include "reports/roofline/roofline.h"

#include "tests/reports/trace_builder.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/metrics.h"
#include "reports/roofline/roofline_parts.h"

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// N = 2 rows x 8 positions = 16; d = 32, H = 4 heads of 8 (one K/V head for two), f = 48, V = 100.
RunConfig config_of(Precision precision = Precision::kBf16) {
  RunConfig config;
  config.device = Device::kCuda;
  config.precision = precision;
  config.shape = {.num_layers = 1,
                  .d_model = 32,
                  .num_heads = 4,
                  .num_kv_heads = 2,
                  .head_dim = 8,
                  .ffn_width = 48,
                  .vocab_size = 100};
  config.sequence_length = 8;
  config.global_batch_size = 2;
  return config;
}

TEST(MatmulWork, CountsTwoFlopsAProductAndEachOperandOnce) {
  // 2 x 16 x 32 x 64; 2 bytes x (16 x 32 + 32 x 64 + 16 x 64).
  EXPECT_EQ(matmul_work(16, 32, 64, 2), (Work{.flops = 65536, .bytes = 7168}));
}

TEST(MatmulsOf, FollowTheOrderOfTheModel) {
  const RunConfig config = config_of();
  // q, k, v together: 32 to 32 + 2 x 16; back: 32 to 32.
  EXPECT_THAT(matmuls_of(config, "block/attention", Phase::kForward),
              ElementsAre(matmul_work(16, 32, 64, 2), matmul_work(16, 32, 32, 2)));
  // Gate and up together; the gradients in reverse order, of input and weight.
  EXPECT_THAT(matmuls_of(config, "block/mlp", Phase::kBackward),
              ElementsAre(matmul_work(16, 48, 32, 2), matmul_work(16, 48, 32, 2),
                          matmul_work(16, 32, 96, 2), matmul_work(16, 32, 96, 2)));
  EXPECT_THAT(matmuls_of(config, "head", Phase::kForward),
              ElementsAre(matmul_work(16, 32, 100, 2)));
  EXPECT_THAT(matmuls_of(config, "block/norm", Phase::kForward), IsEmpty());
  EXPECT_THAT(matmuls_of(config, "head", Phase::kOptimizer), IsEmpty());
}

TEST(MatmulsOf, SumToTheFlopsOfTheStep) {
  RunConfig config = config_of();
  for (const Attention attention : {Attention::kFlash, Attention::kMath}) {
    config.attention = attention;
    double flops = 0;
    for (const std::string_view kind : {"block/attention", "block/mlp", "head"}) {
      for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
        for (const Work& work : matmuls_of(config, kind, phase)) flops += work.flops;
      }
    }
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      flops += attention_work(config, phase).flops;
    }
    const AttentionFlops convention =
        attention == Attention::kMath ? AttentionFlops::kFull : AttentionFlops::kCausal;
    EXPECT_DOUBLE_EQ(flops, 16 * flops_per_token(config.shape, 8, convention));
  }
}

TEST(MatmulsOf, RepeatsTheForwardPassOfABlockThatIsRecomputed) {
  RunConfig config = config_of();
  config.checkpoint = Checkpoint::kFull;
  EXPECT_THAT(matmuls_of(config, "block/mlp", Phase::kBackward), SizeIs(6));
  EXPECT_EQ(matmuls_of(config, "block/mlp", Phase::kBackward)[0], matmul_work(16, 32, 96, 2));
  EXPECT_THAT(matmuls_of(config, "head", Phase::kBackward), SizeIs(2));
}

TEST(AttentionWork, CountsTheLowerTriangleAndEachOperandOnce) {
  // Two products of 2 x 2 rows x 4 heads x 8 wide x 8 x 8, halved. q and the output are 32 wide, k
  // and v 16 each: 2 bytes x 16 positions x (2 x 32 + 2 x 16).
  EXPECT_EQ(attention_work(config_of(), Phase::kForward), (Work{.flops = 8192, .bytes = 3072}));
  EXPECT_EQ(attention_work(config_of(), Phase::kBackward), (Work{.flops = 16384, .bytes = 6144}));
}

TEST(MemoryPartsOf, LeavesOutWhatASwitchMergesOrKeepsInAnotherType) {
  RunConfig config = config_of();
  EXPECT_THAT(memory_parts_of(config), SizeIs(6));
  config.norm = Operators::kFused;
  EXPECT_THAT(memory_parts_of(config), SizeIs(4));
  config.loss = Operators::kFused;
  config.optimizer = Optimizer::kMultiTensor;
  ASSERT_THAT(memory_parts_of(config), SizeIs(1));
  EXPECT_EQ(memory_parts_of(config)[0].label, "optimizer");
  config.weights = Weights::kBf16Master;
  EXPECT_THAT(memory_parts_of(config), IsEmpty());
}

// One step of 4 us with forward products in attention and MLP, one attention kernel with a helper.
class OneStep {
 public:
  OneStep() {
    builder.trace().steps = {{.start_ns = 0, .end_ns = 10'000}};
    kernel("nvjet_qkv", 100, 200, "forward/block 0/attention");
    kernel("flash_fwd_kernel", 200, 264, "forward/block 0/attention");
    kernel("flash_helper", 264, 270, "forward/block 0/attention");
    kernel("nvjet_out", 270, 320, "forward/block 0/attention");
    kernel("nvjet_up", 320, 420, "forward/block 0/mlp");
    kernel("cublasLt::splitKreduce_kernel", 420, 430, "forward/block 0/mlp");
    kernel("nvjet_up", 430, 530, "forward/block 0/mlp");
    kernel("vectorized_layer_norm_kernel", 530, 560, "forward/block 0/norm");
    kernel("multi_tensor_apply_kernel", 600, 1600, "optimizer");
    builder.open("step/fence", 1600, 1700);
  }
  void kernel(std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
              const std::string& path) {
    builder.kernel(name, start_ns, end_ns, 0, "step/" + path);
  }
  Roofline roofline(const RunConfig& config = config_of()) {
    return compute_roofline(builder.trace(), compute_breakdown(builder.trace()), config);
  }
  TraceBuilder builder;
};

const RatedWork& row_of(const std::vector<RatedWork>& rows, std::string_view name) {
  for (const RatedWork& row : rows) {
    if (row.name == name) return row;
  }
  throw std::out_of_range(std::string(name));
}

TEST(ComputeRoofline, RatesEachProductByItsPlaceInTheModel) {
  const Roofline roofline = OneStep().roofline();
  ASSERT_THAT(roofline.kernels, SizeIs(4));
  const RatedWork& qkv = row_of(roofline.kernels, "nvjet_qkv");
  // 65536 FLOP in 100 ns; 7168 bytes.
  EXPECT_DOUBLE_EQ(*qkv.flops_per_s(), 655.36e9);
  EXPECT_DOUBLE_EQ(*qkv.bytes_per_s(), 71.68e9);
  EXPECT_DOUBLE_EQ(*qkv.intensity_ratio(), 65536.0 / 7168);
  // Both of the MLP: 2 x 16 x 32 x 96 and 2 x 16 x 48 x 32 FLOP; the sum of its parts is no third.
  const RatedWork& up = row_of(roofline.kernels, "nvjet_up");
  EXPECT_DOUBLE_EQ(up.work.flops, 98304 + 49152);
  EXPECT_DOUBLE_EQ(up.duration_ns, 200);
  EXPECT_DOUBLE_EQ(up.num_operations, 2);
  // The longest one of the attention kernels has the work of all.
  EXPECT_DOUBLE_EQ(*row_of(roofline.kernels, "flash_fwd_kernel").flops_per_s(), 8192 / 64e-9);
  EXPECT_THAT(roofline.notes, IsEmpty());
}

TEST(ComputeRoofline, SharesAreOfTheRoofThatLimits) {
  const Roofline roofline = OneStep().roofline();
  const RatedWork& qkv = row_of(roofline.kernels, "nvjet_qkv");
  // 9.1 FLOP a byte is far left of the H200's ridge at 206.
  EXPECT_TRUE(roofline.is_bound_by_memory(qkv));
  EXPECT_DOUBLE_EQ(*roofline.roof_share_ratio(qkv), 71.68e9 / 4.8e12);
  RatedWork wide = qkv;
  wide.work = {.flops = 1e9, .bytes = 1e6};
  EXPECT_FALSE(roofline.is_bound_by_memory(wide));
  EXPECT_DOUBLE_EQ(*roofline.roof_share_ratio(wide), 1e9 / 100e-9 / 989.4e12);
  wide.work.is_fp32 = true;
  EXPECT_FALSE(roofline.roof_share_ratio(wide));
}

TEST(ComputeRoofline, RatesWholePartsByTheirLeastBytes) {
  const Roofline roofline = OneStep().roofline();
  // Two norms of 16 x 32 elements, 4 bytes read and 4 written, in 30 ns.
  EXPECT_DOUBLE_EQ(*row_of(roofline.parts, "norms of the blocks, forward").bytes_per_s(),
                   8192 / 30e-9);
  // AdamW: 28 bytes a parameter. 8192 of attention and MLP (32 x 64 + 32 x 32 + 32 x 96 + 48 x 32
  // = 7680), 2 x 3200 of embedding and head, 3 x 32 of norms.
  EXPECT_DOUBLE_EQ(row_of(roofline.parts, "optimizer").work.bytes, 28 * (7680 + 6400 + 96));
  EXPECT_THAT(roofline.parts, SizeIs(2)) << "no loss, no clip: they did not run";
  EXPECT_FALSE(row_of(roofline.parts, "optimizer").flops_per_s());
  EXPECT_DOUBLE_EQ(roofline.rated_ns, 100 + 64 + 50 + 200 + 30 + 1000);
  EXPECT_DOUBLE_EQ(roofline.operation_ns, roofline.rated_ns + 6 + 10);
}

TEST(ComputeRoofline, RatesNothingWhereTheNumberOfProductsIsAnother) {
  OneStep step;
  step.kernel("nvjet_more", 560, 570, "forward/block 0/mlp");
  const Roofline roofline = step.roofline();
  EXPECT_THAT(roofline.notes, ElementsAre("block/mlp, forward: 3 matrix products ran where the "
                                          "model needs 2, so none of them is rated."));
  EXPECT_THAT(roofline.kernels, SizeIs(3));
}

TEST(ComputeRoofline, SaysWhyNothingIsDerived) {
  RunConfig padded = config_of();
  padded.batching = Batching::kPadded;
  const Roofline roofline = OneStep().roofline(padded);
  EXPECT_TRUE(roofline.is_empty());
  EXPECT_THAT(roofline.notes, ElementsAre(HasSubstr("changing lengths")));
  EXPECT_TRUE(compute_roofline({}, {}).is_empty());
}

TEST(ComputeRoofline, HasNoShareWithoutAKnownPeak) {
  OneStep step;
  step.builder.trace().devices[0].name = step.builder.text("NVIDIA Something");
  const Roofline roofline = step.roofline();
  EXPECT_FALSE(roofline.roof_share_ratio(roofline.kernels[0]));
  EXPECT_THAT(roofline_svg(roofline, "baseline"), IsEmpty());
  EXPECT_THAT(roofline_notes(roofline), testing::Contains(HasSubstr("No peak of bf16")));
}

TEST(PeakRates, AreThoseOfTheDataSheets) {
  EXPECT_EQ(peak_memory_bytes_per_s("NVIDIA H200")->per_s, 4.8e12);
  EXPECT_FALSE(peak_memory_bytes_per_s("NVIDIA H200 MIG 1g.18gb"));
  EXPECT_EQ(peak_matmul_flops_per_s("NVIDIA H200", Precision::kFp16)->per_s, 989.4e12);
  EXPECT_EQ(peak_matmul_flops_per_s("NVIDIA H200", Precision::kTf32)->per_s, 494.7e12);
  EXPECT_FALSE(peak_matmul_flops_per_s("NVIDIA H200", Precision::kFp32));
}

TEST(RooflineOutputs, HoldTheSameNumbers) {
  const Roofline roofline = OneStep().roofline();
  const Table table = rated_kernel_table(roofline);
  ASSERT_THAT(table.rows, SizeIs(4));
  EXPECT_THAT(table.rows[1], ElementsAre("nvjet_qkv", "gemm", "100 ns", "1", "0.655", "71.7",
                                         "9.14", "1.49 %", "bandwidth"));
  const nlohmann::json json = to_json(roofline);
  EXPECT_EQ(json["kernels"][1]["achieved_flops_per_s"], 655.36e9);
  EXPECT_EQ(json["parts"][1]["least_bytes"], 28 * (7680 + 6400 + 96));
  EXPECT_TRUE(json["parts"][1]["derived_flops"].is_null());
  const std::string svg = roofline_svg(roofline, "baseline");
  EXPECT_THAT(svg, HasSubstr("nvjet_qkv"));
  EXPECT_THAT(svg, HasSubstr("71.7 GB/s, 1.49 %"));
  for (const auto& [key, value] : json["kernels"][0].items()) {
    if (key.ends_with("_per_s") || key.starts_with("derived_")) {
      EXPECT_NE(find_metric(key), nullptr) << key;
    }
  }
}

}  // namespace
}  // namespace steplens
