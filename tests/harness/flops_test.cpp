#include "harness/flops.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace steplens {
namespace {

constexpr double kH100PeakFlopsPerS = 989.4e12;

// The project's own models.
constexpr ModelShape kModelA = {.num_layers = 12,
                                .d_model = 768,
                                .num_heads = 12,
                                .num_kv_heads = 12,
                                .head_dim = 64,
                                .ffn_width = 2048,
                                .vocab_size = 50304};
constexpr ModelShape kModelB = {.num_layers = 24,
                                .d_model = 2048,
                                .num_heads = 16,
                                .num_kv_heads = 16,
                                .head_dim = 128,
                                .ffn_width = 5632,
                                .vocab_size = 32000};

/// One layer, every letter a different small prime or so: mixed-up letters show.
constexpr ModelShape kTiny = {.num_layers = 3,
                              .d_model = 7,
                              .num_heads = 4,
                              .num_kv_heads = 2,
                              .head_dim = 5,
                              .ffn_width = 11,
                              .vocab_size = 13};

TEST(NumMatmulParameters, AgreesWithASumByHand) {
  // A layer: Q 7*20, K and V 2 * 7*10, output 20*7, FFN 3 * 7*11: 140 + 140 + 140 + 231 = 651.
  // Three layers and a head of 13*7: 1953 + 91.
  EXPECT_EQ(num_matmul_parameters(kTiny), 2044);
  ModelShape plain = kTiny;
  plain.is_gated = false;  // 77 less a layer.
  EXPECT_EQ(num_matmul_parameters(plain), 1813);
}

TEST(NumParameters, AddsEmbeddingAndNorms) {
  EXPECT_EQ(num_parameters(kTiny), 2044 + 13 * 7 + (2 * 3 + 1) * 7);
}

TEST(NumParameters, OfTheProjectsModelsAreTheKnownOnes) {
  // A: 12 * (4*768^2 + 3*768*2048) + 2 * 50304*768 + 25*768.
  EXPECT_EQ(num_parameters(kModelA), 162'220'800);
  // B: 24 * (4*2048^2 + 3*2048*5632) + 2 * 32000*2048 + 49*2048.
  EXPECT_EQ(num_parameters(kModelB), 1'364'297'728);
  // As documented: 162.2 and 1,364.2 million.
  EXPECT_NEAR(static_cast<double>(num_parameters(kModelA)), 162.2e6, 0.1e6);
  EXPECT_NEAR(static_cast<double>(num_parameters(kModelB)), 1364.2e6, 0.1e6);
}

TEST(NumMatmulParameters, RefusesImpossibleShapes) {
  ModelShape shape = kTiny;
  shape.num_kv_heads = 3;
  EXPECT_THROW(num_matmul_parameters(shape), ConfigError);
  shape = kTiny;
  shape.ffn_width = 0;
  try {
    num_matmul_parameters(shape);
    FAIL() << "a width of 0 passed";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "ffn_width is 0; allowed: 1 or more");
  }
}

TEST(FlopsPerToken, FollowsEachConvention) {
  // 6 * 2044 = 12264; attention 6 * L*H*hd * T = 6 * 60 * 100 = 36,000 causal.
  EXPECT_EQ(flops_per_token(kTiny, 100, AttentionFlops::kNone), 12'264);
  EXPECT_EQ(flops_per_token(kTiny, 100, AttentionFlops::kCausal), 48'264);
  EXPECT_EQ(flops_per_token(kTiny, 100, AttentionFlops::kFull), 84'264);
  EXPECT_THROW(flops_per_token(kTiny, 0), ConfigError);
}

TEST(FlopsPerToken, CountsWhatTheHardwareRepeats) {
  const auto flops = [](const HardwareWork& work, AttentionFlops attention) {
    return flops_per_token(kTiny, 100, attention, work);
  };
  // Matrix products 12,264 * 4/3 = 16,352.
  EXPECT_EQ(flops({.has_full_recompute = true}, AttentionFlops::kCausal), 16'352 + 36'000);
  EXPECT_EQ(flops({.has_full_recompute = true}, AttentionFlops::kNone), 16'352);
  // Q*K^T again: 7 of 6 products. 36,000 * 7/6 = 42,000.
  EXPECT_EQ(flops({.has_flash_backward = true}, AttentionFlops::kCausal), 12'264 + 42'000);
  EXPECT_EQ(flops({.has_flash_backward = true}, AttentionFlops::kFull), 12'264 + 84'000);
  // The forward's two products again: 8 of 6.
  EXPECT_EQ(flops({.has_attention_recompute = true}, AttentionFlops::kCausal), 12'264 + 48'000);
  EXPECT_EQ(flops({true, true, true}, AttentionFlops::kCausal), 16'352 + 54'000);
}

TEST(PackedFlops, SquaresEachDocumentAlone) {
  // Causal: 6*60 = 360 per squared token. 10^2 + 30^2 + 60^2 = 4600.
  const std::vector<std::int64_t> documents = {10, 30, 60};
  EXPECT_EQ(packed_flops(kTiny, documents), 100.0 * 12'264 + 360.0 * 4600);
  EXPECT_EQ(packed_flops(kTiny, documents, AttentionFlops::kFull), 100.0 * 12'264 + 720.0 * 4600);
}

TEST(PackedFlops, OfOneDocumentIsTheUnpackedFigure) {
  const std::vector<std::int64_t> documents = {1024, 1024};
  EXPECT_DOUBLE_EQ(packed_flops(kModelA, documents), 2048 * flops_per_token(kModelA, 1024));
  EXPECT_EQ(packed_flops(kModelA, {}), 0);
}

// ---- Golden figures: published tokens/s and utilisation. ----

// Shapes from the models' published configurations.
ModelShape qwen(std::int64_t num_layers, std::int64_t d_model, std::int64_t num_heads,
                std::int64_t num_kv_heads, std::int64_t ffn_width, std::int64_t vocab_size) {
  return {.num_layers = num_layers,
          .d_model = d_model,
          .num_heads = num_heads,
          .num_kv_heads = num_kv_heads,
          .head_dim = d_model / num_heads,
          .ffn_width = ffn_width,
          .vocab_size = vocab_size};
}

/// GPT-2 and MPT: no gate, an FFN of four times the width, as many key/value heads as heads.
ModelShape plain_gpt(std::int64_t num_layers, std::int64_t d_model, std::int64_t num_heads,
                     std::int64_t vocab_size) {
  return {.num_layers = num_layers,
          .d_model = d_model,
          .num_heads = num_heads,
          .num_kv_heads = num_heads,
          .head_dim = d_model / num_heads,
          .ffn_width = 4 * d_model,
          .vocab_size = vocab_size,
          .is_gated = false};
}

struct GoldenRow {
  const char* name;
  ModelShape shape;
  std::int64_t sequence_length;
  double tokens_per_s;
  AttentionFlops attention;
  double percent;
};

std::vector<GoldenRow> golden_rows() {
  constexpr auto kCausal = AttentionFlops::kCausal;
  constexpr auto kFull = AttentionFlops::kFull;
  const ModelShape llama_8b = qwen(32, 4096, 32, 8, 14336, 128256);
  const ModelShape gpt2_xl = plain_gpt(48, 1600, 25, 50304);
  return {
      {"Qwen2.5-0.5B", qwen(24, 896, 14, 2, 4864, 151936), 1024, 149'500, kCausal, 46.8},
      {"Qwen2.5-1.5B", qwen(28, 1536, 12, 2, 8960, 151936), 1024, 58'870, kCausal, 56.7},
      {"Qwen2.5-3B", qwen(36, 2048, 16, 2, 11008, 151936), 1024, 30'900, kCausal, 59.2},
      {"Qwen2.5-7B", qwen(28, 3584, 28, 4, 18944, 152064), 1024, 13'830, kCausal, 60.2},
      {"Llama-3 8B causal", llama_8b, 4096, 10'471, kCausal, 51.1},
      {"Llama-3 8B full", llama_8b, 4096, 10'471, kFull, 54.5},
      {"MPT 1B", plain_gpt(24, 2048, 16, 50368), 2048, 45'455, kFull, 41.7},
      {"MPT 7B", plain_gpt(32, 4096, 32, 50368), 2048, 10'643, kFull, 46.4},
      {"GPT-2 1558M causal", gpt2_xl, 1024, 46'811, kCausal, 46.4},
      {"GPT-2 1558M full", gpt2_xl, 1024, 46'811, kFull, 48.6},
      // The project's models on one H200, torch 2.11, bf16: rates and utilisation as first noted.
      {"model A eager", kModelA, 1024, 291'600, kCausal, 23.5},
      {"model A compiled", kModelA, 1024, 494'000, kCausal, 39.8},
      {"model B eager", kModelB, 4096, 43'000, kCausal, 39.1},
      {"model B compiled", kModelB, 4096, 55'000, kCausal, 50.1},
  };
}

TEST(MfuRatio, AgreesWithThePublishedFigures) {
  for (const GoldenRow& row : golden_rows()) {
    const double ratio = mfu_ratio(flops_per_token(row.shape, row.sequence_length, row.attention),
                                   row.tokens_per_s, kH100PeakFlopsPerS);
    EXPECT_NEAR(100 * ratio, row.percent, 0.3) << row.name;
  }
}

TEST(MfuRatio, WouldMissThePublishedFigureWithTheEmbeddingCounted) {
  // KempnerForge itself printed 57.8 %: full attention and all 8.03e9 parameters.
  const ModelShape llama_8b = qwen(32, 4096, 32, 8, 14336, 128256);
  const double embedding_flops = 6.0 * 128256 * 4096;
  const double flops = flops_per_token(llama_8b, 4096, AttentionFlops::kFull) + embedding_flops;
  EXPECT_NEAR(100 * mfu_ratio(flops, 10'471, kH100PeakFlopsPerS), 57.8, 0.3);
}

TEST(MfuRatio, RefusesMoreThanAllOfThePeak) {
  EXPECT_EQ(mfu_ratio(10, 100, 1000), 1);
  EXPECT_THROW(mfu_ratio(10, 100.1, 1000), ImpossibleMfu);
  EXPECT_THROW(mfu_ratio(10, 100.1, 1000), ConfigError);  // So that main knows what to do.
}

TEST(MfuRatio, RefusesWhatIsNoAmount) {
  EXPECT_THROW(mfu_ratio(10, 1, 0), ConfigError);
  EXPECT_THROW(mfu_ratio(0, 1, 0), ConfigError);
  EXPECT_THROW(mfu_ratio(-10, 1, 1000), ConfigError);
  EXPECT_THROW(mfu_ratio(10, std::numeric_limits<double>::quiet_NaN(), 1000), ConfigError);
  EXPECT_THROW(mfu_ratio(10, 1, std::numeric_limits<double>::infinity()), ConfigError);
}

TEST(ModelFlopsUtilization, GivesBothConventionsWithTheirDenominator) {
  const PeakFlops peak = {.flops_per_s = kH100PeakFlopsPerS, .source = "data sheet"};
  const Mfu mfu = model_flops_utilization(plain_gpt(48, 1600, 25, 50304), 1024, 46'811, peak);
  EXPECT_NEAR(mfu.mfu_causal_ratio, 0.464, 0.003);
  EXPECT_NEAR(mfu.mfu_full_ratio.value_or(0), 0.486, 0.003);
  EXPECT_EQ(mfu.peak_flops_per_s, kH100PeakFlopsPerS);
  EXPECT_EQ(mfu.peak_source, "data sheet");
  EXPECT_EQ(mfu.num_matmul_parameters, 48LL * 12 * 1600 * 1600 + 50304LL * 1600);
}

TEST(ModelFlopsUtilization, LeavesOutAFullFigureAboveOne) {
  // 48,264 FLOPs a token causal, 84,264 full: one token/s on a peak between them.
  const Mfu mfu = model_flops_utilization(kTiny, 100, 1, {.flops_per_s = 60'000, .source = "x"});
  EXPECT_DOUBLE_EQ(mfu.mfu_causal_ratio, 48'264.0 / 60'000);
  EXPECT_FALSE(mfu.mfu_full_ratio.has_value());
  EXPECT_THROW(model_flops_utilization(kTiny, 100, 1, {.flops_per_s = 48'000, .source = "x"}),
               ImpossibleMfu);
}

// ---- Peaks ----

double known_peak(std::string_view gpu_name) {
  const auto peak = peak_bf16_flops_per_s(gpu_name);
  return peak && !peak->source.empty() ? peak->flops_per_s : 0;
}

TEST(PeakBf16FlopsPerS, KnowsTheNamesThatNvmlGives) {
  EXPECT_EQ(known_peak("NVIDIA H200"), 989.4e12);
  EXPECT_EQ(known_peak("NVIDIA H100 80GB HBM3"), 989.4e12);
  EXPECT_EQ(known_peak("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(known_peak("NVIDIA H100 NVL"), 835e12);
  EXPECT_EQ(known_peak("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(known_peak("NVIDIA A100-PCIE-40GB"), 312e12);
  EXPECT_EQ(known_peak("NVIDIA A100 80GB PCIe"), 312e12);
  EXPECT_EQ(known_peak("A100-SXM4-40GB"), 312e12);  // Drivers before 470 leave the vendor out.
}

TEST(PeakBf16FlopsPerS, IsAbsentForOtherGpusAndForSlices) {
  for (const char* name : {"", "NVIDIA ", "NVIDIA H200 NVL", "NVIDIA GH200 480GB", "NVIDIA H100",
                           "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090", "H20"}) {
    EXPECT_FALSE(peak_bf16_flops_per_s(name).has_value()) << name;
  }
}

TEST(ValidatePeakFlopsPerS, AcceptsDensePeaks) {
  EXPECT_NO_THROW(validate_peak_flops_per_s(989.4e12, "NVIDIA H200"));
  EXPECT_NO_THROW(validate_peak_flops_per_s(165.2e12, "NVIDIA GeForce RTX 4090"));
  EXPECT_NO_THROW(validate_peak_flops_per_s(624e12, ""));
}

TEST(ValidatePeakFlopsPerS, RefusesFiguresWithSparsity) {
  EXPECT_THROW(validate_peak_flops_per_s(1979e12, ""), ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(1978.9e12, "NVIDIA GeForce RTX 4090"), ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(1513e12, "NVIDIA H100 PCIe"), ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(1671e12, "NVIDIA H100 NVL"), ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(624e12, "NVIDIA A100-SXM4-80GB"), ConfigError);
}

TEST(ValidatePeakFlopsPerS, RefusesWhatIsNoPeak) {
  EXPECT_THROW(validate_peak_flops_per_s(0, ""), ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(-1e15, ""), ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(989.4, ""), ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(std::numeric_limits<double>::quiet_NaN(), ""),
               ConfigError);
  EXPECT_THROW(validate_peak_flops_per_s(std::numeric_limits<double>::infinity(), ""), ConfigError);
}

TEST(DdpBytesPerOptimizerStep, CountsARingsTwoPasses) {
  // Four ranks: 2 * 3/4 of 1000 bytes.
  EXPECT_EQ(ddp_bytes_per_optimizer_step(4, 1000, 8, true), 1500);
  EXPECT_EQ(ddp_bytes_per_optimizer_step(4, 1000, 8, false), 12'000);
  EXPECT_EQ(ddp_bytes_per_optimizer_step(1, 1000, 8, false), 0);
  EXPECT_THROW(ddp_bytes_per_optimizer_step(0, 1000, 8, false), ConfigError);
  EXPECT_THROW(ddp_bytes_per_optimizer_step(2, -1, 8, false), ConfigError);
}

}  // namespace
}  // namespace steplens
