// Each wrapper of workloads/fused against ATen's composition of the same operator, computed in
// double from the same rounded inputs.

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include "harness/temporary_folder.h"
#include "workloads/autocast.h"
#include "workloads/dropout.h"
#include "workloads/fused/embedding.h"
#include "workloads/fused/gemm.h"
#include "workloads/fused/loss.h"
#include "workloads/fused/mlp.h"
#include "workloads/fused/norm.h"
#include "workloads/fused/residual.h"
#include "workloads/fused/rope.h"
#include "workloads/fused/rope_attention.h"

namespace steplens {
namespace {

// fp32: sums of up to 1000 terms in another order. bf16: each rounding is wrong by 2^-9 at most and
// 0.4 of that in the mean of squares; at most four of them (input of a product, its result, the
// operator's own, a gradient's) meet in one value, and a product halves what was there before.
double bound(at::ScalarType type) { return type == at::kFloat ? 1e-5 : 6e-3; }

double relative_norm(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor difference = actual.to(at::kDouble) - expected.to(at::kDouble);
  return difference.norm().item<double>() / expected.to(at::kDouble).norm().item<double>();
}

class FusedOperators : public ::testing::Test {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    at::globalContext().lazyInitDevice(at::kCUDA);
    static const TemporaryFolder tables("steplens-gemm");  // The process opens its table once.
    ::setenv("STEPLENS_GEMM_TABLES", tables.path().c_str(), 1);
    // Memory that the wrappers ask for comes filled with NaN.
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }

  static at::TensorOptions options(at::ScalarType type = at::kFloat) {
    return at::TensorOptions(at::kCUDA).dtype(type);
  }
  static at::Tensor random(at::IntArrayRef sizes, at::ScalarType type, double scale = 1) {
    return (at::randn(sizes, options()) * scale).to(type).requires_grad_(true);
  }
  // The same values in double, a leaf of its own.
  static at::Tensor twin(const at::Tensor& x) {
    return x.detach().to(at::kDouble).requires_grad_(true);
  }
  static void expect_near(const at::Tensor& actual, const at::Tensor& expected, at::ScalarType type,
                          const std::string& what) {
    ASSERT_TRUE(actual.defined()) << what;
    EXPECT_EQ(actual.sizes(), expected.sizes()) << what;
    EXPECT_LE(relative_norm(actual.detach(), expected.detach()), bound(type)) << what;
  }
};

TEST_F(FusedOperators, NormAddsTheBranchAndHasAtensGradients) {
  struct Types {
    at::ScalarType x, branch, product;
  };
  constexpr Types kTypes[] = {{at::kFloat, at::kFloat, at::kFloat},
                              {at::kBFloat16, at::kBFloat16, at::kBFloat16},
                              {at::kFloat, at::kBFloat16, at::kBFloat16}};
  for (const Types& types : kTypes) {
    for (const std::int64_t num_channels : {192, 768, 77}) {
      for (const bool has_branch : {true, false}) {
        const std::string name = std::string(c10::toString(types.x)) + " and " +
                                 c10::toString(types.branch) + ", " + std::to_string(num_channels) +
                                 (has_branch ? ", branch" : "");
        const at::Tensor x = random({3, 11, num_channels}, types.x);
        const at::Tensor branch =
            has_branch ? random({3, 11, num_channels}, types.branch) : at::Tensor();
        const at::Tensor weight = random({num_channels}, at::kFloat);
        const NormedStream actual = fused_norm(x, branch, weight, 1e-5, types.product);
        EXPECT_EQ(actual.normed_BTC.scalar_type(), types.product);
        EXPECT_EQ(actual.stream_BTC.scalar_type(), types.x);

        const at::Tensor x2 = twin(x);
        const at::Tensor branch2 = has_branch ? twin(branch) : at::Tensor();
        const at::Tensor weight2 = twin(weight);
        const at::Tensor stream2 = has_branch ? x2 + branch2 : x2 * 1;
        const at::Tensor normed2 = at::rms_norm(stream2, {num_channels}, weight2, 1e-5);
        expect_near(actual.stream_BTC, stream2, types.x, name + " stream");
        expect_near(actual.normed_BTC, normed2, types.product, name + " normed");

        // Both outputs are used, as in a block.
        const at::Tensor past = random({3, 11, num_channels}, types.x).detach();
        const at::Tensor dy = random({3, 11, num_channels}, types.product).detach();
        const auto root = [&](const at::Tensor& stream, const at::Tensor& normed) {
          const at::Tensor down = (normed * dy.to(normed.scalar_type())).to(at::kDouble).sum();
          return down + (stream * past.to(stream.scalar_type())).to(at::kDouble).sum();
        };
        root(actual.stream_BTC, actual.normed_BTC).backward();
        root(stream2, normed2).backward();
        expect_near(x.grad(), x2.grad(), types.x, name + " dx");
        expect_near(weight.grad(), weight2.grad(), types.product, name + " dweight");
        if (has_branch) {
          expect_near(branch.grad(), branch2.grad(), types.branch, name + " dbranch");
        }
      }
    }
  }
}

TEST_F(FusedOperators, NormDropsTheBranchAsDropOutDoes) {
  struct Types {
    at::ScalarType x, branch;
  };
  const at::Tensor step_index = at::full({1}, 5, options(at::kLong));
  const DropoutSite site = {
      .probability = 0.25, .seed = 21, .call_index = 3, .step_index = step_index};
  for (const Types& types : {Types{at::kFloat, at::kFloat}, Types{at::kBFloat16, at::kBFloat16},
                             Types{at::kFloat, at::kBFloat16}}) {
    for (const std::int64_t num_channels : {768, 77}) {
      const std::string name = std::string(c10::toString(types.x)) + " and " +
                               c10::toString(types.branch) + ", " + std::to_string(num_channels);
      const at::Tensor x = random({3, 11, num_channels}, types.x);
      const at::Tensor branch = random({3, 11, num_channels}, types.branch);
      const at::Tensor weight = random({num_channels}, at::kFloat);
      const NormedStream actual = fused_norm(x, branch, weight, 1e-5, types.branch, site);
      // In fp32 the factors are exact.
      const at::Tensor factor = drop_out(at::ones(branch.sizes(), options()), site);

      const at::Tensor x2 = twin(x);
      const at::Tensor branch2 = twin(branch);
      const at::Tensor weight2 = twin(weight);
      const at::Tensor stream2 = x2 + branch2 * factor.to(at::kDouble);
      const at::Tensor normed2 = at::rms_norm(stream2, {num_channels}, weight2, 1e-5);
      expect_near(actual.stream_BTC, stream2, types.x, name + " stream");
      expect_near(actual.normed_BTC, normed2, types.branch, name + " normed");
      const at::Tensor dy = random(branch.sizes(), types.branch).detach();
      (actual.normed_BTC * dy).sum().backward();
      (normed2 * dy.to(at::kDouble)).sum().backward();
      expect_near(x.grad(), x2.grad(), types.branch, name + " dx");
      expect_near(branch.grad(), branch2.grad(), types.branch, name + " dbranch");
      expect_near(weight.grad(), weight2.grad(), types.branch, name + " dweight");
    }
  }
}

TEST_F(FusedOperators, DropOutDrawsTheSameOnHostAndDevice) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const DropoutSite site = {.probability = 0.3,
                              .seed = 8,
                              .call_index = 1,
                              .step_index = at::full({1}, 2, options(at::kLong))};
    DropoutSite host_site = site;
    host_site.step_index = site.step_index.cpu();
    const at::Tensor x = at::ones({5, 33}, options(type));
    const at::Tensor actual = drop_out(x, site);
    const at::Tensor expected = drop_out(at::ones({5, 33}), host_site).to(type);
    EXPECT_TRUE(actual.cpu().equal(expected)) << c10::toString(type);
  }
}

TEST_F(FusedOperators, NormWhoseStreamGoesNowhereHasTheGradientOfTheNormAlone) {
  const at::Tensor x = random({2, 5, 64}, at::kFloat);
  const at::Tensor branch = random({2, 5, 64}, at::kFloat);
  const at::Tensor weight = random({64}, at::kFloat);
  fused_norm(x, branch, weight, 1e-5, at::kFloat).normed_BTC.pow(2).sum().backward();
  const at::Tensor x2 = twin(x);
  const at::Tensor branch2 = twin(branch);
  at::rms_norm(x2 + branch2, {64}, twin(weight), 1e-5).pow(2).sum().backward();
  // A square's gradient through its own normalization nearly cancels: compare with the terms.
  EXPECT_LE((x.grad().to(at::kDouble) - x2.grad()).norm().item<double>(), 1e-4);
  EXPECT_TRUE(x.grad().equal(branch.grad()));
}

TEST_F(FusedOperators, RopeRotatesAndSplitsAsAtenDoes) {
  struct Size {
    std::int64_t num_rows, length, num_heads, num_kv_heads, head_dim;
  };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Size& s : {Size{2, 7, 4, 2, 32}, Size{3, 33, 12, 12, 64}, Size{1, 5, 3, 1, 10}}) {
      const std::string name = std::string(c10::toString(type)) + ", " + std::to_string(s.head_dim);
      const std::int64_t width = (s.num_heads + 2 * s.num_kv_heads) * s.head_dim;
      const at::Tensor leaf = random({s.num_rows, s.length, width}, type);
      const at::Tensor half = at::randn({s.length + 3, s.head_dim / 2}, options());
      const at::Tensor angle = at::cat({half, half}, 1);
      const at::Tensor cos = angle.cos();
      const at::Tensor sin = angle.sin();
      // A copy, because it is rotated where it lies.
      const QkvHeads actual = fused_rope(leaf * 1, cos, sin, s.num_heads, s.num_kv_heads);

      const at::Tensor leaf2 = twin(leaf);
      const auto split = leaf2.split_with_sizes(
          {s.num_heads * s.head_dim, s.num_kv_heads * s.head_dim, s.num_kv_heads * s.head_dim}, 2);
      const auto heads = [&](const at::Tensor& part, std::int64_t count) {
        return part.view({s.num_rows, s.length, count, s.head_dim}).transpose(1, 2);
      };
      const auto rotate = [&](const at::Tensor& x) {
        const auto halves = x.split(s.head_dim / 2, 3);
        return x * cos.narrow(0, 0, s.length).to(at::kDouble) +
               at::cat({-halves[1], halves[0]}, 3) * sin.narrow(0, 0, s.length).to(at::kDouble);
      };
      const at::Tensor q2 = rotate(heads(split[0], s.num_heads));
      const at::Tensor k2 = rotate(heads(split[1], s.num_kv_heads));
      const at::Tensor v2 = heads(split[2], s.num_kv_heads);
      expect_near(actual.q_BHTD, q2, type, name + " q");
      expect_near(actual.k_BKTD, k2, type, name + " k");
      expect_near(actual.v_BKTD, v2, type, name + " v");

      // Gradients in another layout than their tensors, as attention kernels give them.
      const at::Tensor dq = at::randn(q2.sizes(), options()).to(type);
      const at::Tensor dk = at::randn(k2.sizes(), options()).to(type);
      const at::Tensor dv = at::randn(v2.sizes(), options()).to(type);
      const auto root = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        const auto part = [](const at::Tensor& x, const at::Tensor& dx) {
          return (x * dx.to(x.scalar_type())).to(at::kDouble).sum();
        };
        return part(q, dq) + part(k, dk) + part(v, dv);
      };
      root(actual.q_BHTD, actual.k_BKTD, actual.v_BKTD).backward();
      root(q2, k2, v2).backward();
      expect_near(leaf.grad(), leaf2.grad(), type, name + " dqkv");
    }
  }
}

TEST_F(FusedOperators, RopeAttentionHasTheGradientsOfAllScores) {
  struct Size {
    std::int64_t num_rows, length, num_heads, head_dim;
  };
  RunConfig config;
  config.device = Device::kCuda;
  config.precision = Precision::kBf16;
  config.attention = Attention::kCudnn;
  config.rope = Operators::kFused;
  config.shape.num_heads = config.shape.num_kv_heads = 4;
  config.shape.head_dim = 64;
  if (!takes_rope_attention(config)) GTEST_SKIP() << "a build without cuDNN's frontend";
  for (const auto change : {+[](RunConfig& c) { c.attention = Attention::kFlash; },
                            +[](RunConfig& c) { c.precision = Precision::kFp32; },
                            +[](RunConfig& c) { c.rope = Operators::kAten; },
                            +[](RunConfig& c) { c.batching = Batching::kPadded; },
                            +[](RunConfig& c) { c.sequence_length = 1; },
                            +[](RunConfig& c) { c.shape.num_kv_heads *= 2; },
                            +[](RunConfig& c) { c.shape.head_dim = 136; }}) {
    RunConfig other = config;
    change(other);
    EXPECT_FALSE(takes_rope_attention(other));
  }
  // Whole tiles, rows that fill none, one head, and the same shape again by the plan that is there.
  for (const Size& s :
       {Size{2, 256, 3, 64}, Size{3, 200, 2, 128}, Size{1, 77, 4, 32}, Size{2, 256, 3, 64}}) {
    const std::string name = std::to_string(s.length) + " tokens, " + std::to_string(s.head_dim);
    const std::int64_t width = s.num_heads * s.head_dim;
    const at::Tensor leaf = random({s.num_rows, s.length, 3 * width}, at::kBFloat16);
    const at::Tensor half = at::randn({s.length + 3, s.head_dim / 2}, options());
    const at::Tensor angle = at::cat({half, half}, 1);
    const at::Tensor cos = angle.cos();
    const at::Tensor sin = angle.sin();
    // A copy, because it is rotated where it lies.
    const at::Tensor actual = fused_rope_attention(leaf * 1, cos, sin, s.num_heads);

    const at::Tensor leaf2 = twin(leaf);
    const auto split = leaf2.split(width, 2);
    const auto heads = [&](const at::Tensor& part) {
      return part.view({s.num_rows, s.length, s.num_heads, s.head_dim}).transpose(1, 2);
    };
    const auto rotate = [&](const at::Tensor& x) {
      const auto halves = x.split(s.head_dim / 2, 3);
      return x * cos.narrow(0, 0, s.length).to(at::kDouble) +
             at::cat({-halves[1], halves[0]}, 3) * sin.narrow(0, 0, s.length).to(at::kDouble);
    };
    const at::Tensor scores =
        at::matmul(rotate(heads(split[0])), rotate(heads(split[1])).transpose(2, 3)) /
        std::sqrt(static_cast<double>(s.head_dim));
    const at::Tensor future = at::ones({s.length, s.length}, options(at::kBool)).triu(1);
    const at::Tensor expected =
        at::matmul(scores.masked_fill(future, -HUGE_VAL).softmax(-1), heads(split[2]))
            .transpose(1, 2)
            .reshape({s.num_rows, s.length, width});
    // Beside the roundings that `bound` knows, those of rotated q and k enter the exponents.
    constexpr double kLimit = 1.2e-2;
    EXPECT_EQ(actual.sizes(), expected.sizes()) << name;
    EXPECT_LE(relative_norm(actual.detach(), expected.detach()), kLimit) << name;
    const at::Tensor dy = at::randn(expected.sizes(), options()).to(at::kBFloat16);
    actual.backward(dy);
    expected.backward(dy.to(at::kDouble));
    const auto parts = leaf.grad().split(width, 2);
    const auto parts2 = leaf2.grad().split(width, 2);
    for (const std::size_t i : {0U, 1U, 2U}) {
      EXPECT_LE(relative_norm(parts[i], parts2[i]), kLimit) << name << ", part " << i;
    }
  }
}

TEST_F(FusedOperators, SwigluHasAtensGradients) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t width : {7, 512, 2048}) {
      const std::string name = std::string(c10::toString(type)) + ", " + std::to_string(width);
      const at::Tensor x = random({2, 17, 2 * width}, type, 3);
      const at::Tensor actual = fused_swiglu(x);
      const at::Tensor x2 = twin(x);
      const auto halves = x2.split(width, 2);
      const at::Tensor expected = at::silu(halves[0]) * halves[1];
      expect_near(actual, expected, type, name);
      const at::Tensor dy = at::randn({2, 17, width}, options()).to(type);
      actual.backward(dy);
      expected.backward(dy.to(at::kDouble));
      expect_near(x.grad(), x2.grad(), type, name + " gradient");
    }
  }
}

TEST_F(FusedOperators, TunedLinearHasAtensGradients) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t width : {8, 96, 515}) {
      const std::string name = std::string(c10::toString(type)) + ", " + std::to_string(width);
      const at::Tensor x = random({3, 65, width}, type);
      const at::Tensor weight = random({72, width}, type, 0.1);
      const at::Tensor x2 = twin(x);
      const at::Tensor weight2 = twin(weight);
      const at::Tensor dy = at::randn({3, 65, 72}, options()).to(type);
      // A second time by the algorithms that the first one measured; gradients add up.
      for (int pass = 0; pass < 2; ++pass) {
        const at::Tensor actual = tuned_linear(x, weight);
        const at::Tensor expected = at::linear(x2, weight2);
        expect_near(actual, expected, type, name);
        actual.backward(dy);
        expected.backward(dy.to(at::kDouble));
      }
      expect_near(x.grad(), x2.grad(), type, name + " gradient of x");
      expect_near(weight.grad(), weight2.grad(), type, name + " gradient of the weight");
    }
  }
}

TEST_F(FusedOperators, TunedLinearCastsUnderAutocastAndSkipsWhatNeedsNoGradient) {
  const at::Tensor x = random({2, 33, 64}, at::kFloat).detach();
  const at::Tensor weight = random({48, 64}, at::kFloat, 0.1);
  const at::Tensor weight2 = twin(weight.detach().to(at::kBFloat16));
  at::Tensor actual;
  {
    const AutocastScope autocast({.device = at::kCUDA, .is_enabled = true});
    actual = tuned_linear(x, weight);
  }
  EXPECT_EQ(actual.scalar_type(), at::kBFloat16);
  actual.sum().backward();
  const at::Tensor expected = at::matmul(x.to(at::kBFloat16).to(at::kDouble), weight2.t());
  expected.sum().backward();
  expect_near(actual, expected, at::kBFloat16, "autocast");
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  expect_near(weight.grad(), weight2.grad(), at::kBFloat16, "gradient of the weight");
}

TEST_F(FusedOperators, ResidualLinearAddsInTheProduct) {
  struct Case {
    at::ScalarType stream, operands;
    Gemm gemm;
  };
  for (const auto& [stream_type, type, gemm] :
       {Case{at::kFloat, at::kFloat, Gemm::kHeuristic}, Case{at::kFloat, at::kFloat, Gemm::kTuned},
        Case{at::kBFloat16, at::kBFloat16, Gemm::kHeuristic},
        Case{at::kBFloat16, at::kBFloat16, Gemm::kTuned},
        Case{at::kFloat, at::kBFloat16, Gemm::kHeuristic},
        Case{at::kFloat, at::kBFloat16, Gemm::kTuned}}) {
    for (const auto& [num_inputs, num_outputs] : {std::pair{64, 48}, std::pair{33, 17}}) {
      const std::string name = std::string(c10::toString(stream_type)) + " + " +
                               c10::toString(type) + ", " + std::to_string(num_inputs) +
                               (gemm == Gemm::kTuned ? ", tuned" : "");
      const at::Tensor stream = random({3, 11, num_outputs}, stream_type);
      const at::Tensor x = random({3, 11, num_inputs}, type);
      const at::Tensor weight = random({num_outputs, num_inputs}, type, 0.1);
      const at::Tensor before = stream.detach().clone();
      const at::Tensor actual = residual_linear(stream, x, weight, gemm);
      EXPECT_EQ(actual.scalar_type(), stream_type) << name;
      EXPECT_TRUE(stream.detach().equal(before)) << name;
      const at::Tensor stream2 = twin(stream);
      const at::Tensor x2 = twin(x);
      const at::Tensor weight2 = twin(weight);
      const at::Tensor expected = stream2 + at::matmul(x2, weight2.t());
      expect_near(actual, expected, stream_type, name);
      const at::Tensor dy = at::randn(actual.sizes(), options()).to(stream_type);
      actual.backward(dy);
      expected.backward(dy.to(at::kDouble));
      EXPECT_TRUE(stream.grad().equal(dy)) << name;
      expect_near(x.grad(), x2.grad(), type, name + ", dx");
      expect_near(weight.grad(), weight2.grad(), type, name + ", dweight");
    }
  }
}

TEST_F(FusedOperators, EmbeddingSumsTheGradientsOfEachToken) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t vocab_size : {37, 5000}) {
      const std::string name = std::string(c10::toString(type)) + ", " + std::to_string(vocab_size);
      const at::Tensor table = random({vocab_size, 48}, type);
      // Squared: some tokens come often, some never.
      const at::Tensor tokens =
          (at::rand({4, 300}, options()).pow(2) * static_cast<double>(vocab_size)).to(at::kLong);
      const at::Tensor actual = fused_embedding(table, tokens);
      const at::Tensor table2 = twin(table);
      const at::Tensor expected = at::embedding(table2, tokens);
      EXPECT_TRUE(actual.to(at::kDouble).equal(expected)) << name;
      const at::Tensor dy = at::randn(actual.sizes(), options()).to(type);
      actual.backward(dy);
      expected.backward(dy.to(at::kDouble));
      EXPECT_EQ(table.grad().scalar_type(), type);
      expect_near(table.grad(), table2.grad(), type, name);
    }
  }
}

TEST_F(FusedOperators, HeadLossInChunksHasTheLossAndGradientsOfAllLogits) {
  struct Size {
    std::int64_t num_rows, length, num_channels, vocab_size;
  };
  // One chunk, two unequal ones with an odd vocabulary, and rows that are no multiple of anything.
  constexpr Size kSizes[] = {{2, 9, 32, 101}, {3, 4099, 64, 1031}, {1, 8193, 48, 320}};
  struct Case {
    at::ScalarType type, weight_type;
    std::optional<double> root;  // The gradient that is promised to come in.
    Gemm gemm = Gemm::kHeuristic;
    std::int64_t max_rows = 8192;
  };
  constexpr Case kCases[] = {{at::kFloat, at::kFloat, std::nullopt},
                             {at::kFloat, at::kFloat, 0.25},
                             {at::kBFloat16, at::kFloat, std::nullopt},
                             {at::kBFloat16, at::kFloat, 0.25},
                             {at::kBFloat16, at::kBFloat16, std::nullopt},
                             {at::kBFloat16, at::kBFloat16, 0.25},
                             {at::kFloat, at::kFloat, 0.25, Gemm::kTuned},
                             {at::kBFloat16, at::kBFloat16, 0.25, Gemm::kTuned},
                             {at::kBFloat16, at::kFloat, 0.25, Gemm::kHeuristic, 0},
                             {at::kBFloat16, at::kBFloat16, std::nullopt, Gemm::kHeuristic, 0},
                             {at::kBFloat16, at::kBFloat16, 0.25, Gemm::kTuned, 0},
                             {at::kFloat, at::kFloat, 0.25, Gemm::kHeuristic, 1000}};
  for (const auto& [type, weight_type, root, gemm, max_rows] : kCases) {
    for (const Size& s : kSizes) {
      const std::string name = std::string(c10::toString(type)) + ", weights " +
                               c10::toString(weight_type) + ", " + std::to_string(s.vocab_size) +
                               (root ? ", promised" : "") + ", at most " +
                               std::to_string(max_rows) + " rows";
      const at::Tensor h = random({s.num_rows, s.length, s.num_channels}, type);
      const at::Tensor weight = random({s.vocab_size, s.num_channels}, weight_type, 0.3);
      at::Tensor targets = at::randint(s.vocab_size, {s.num_rows, s.length}, options(at::kLong));
      targets.narrow(1, 2, 3).fill_(-100);
      const at::Tensor actual = fused_head_loss(h, weight, targets, type, gemm, max_rows,
                                                {.factor = 0.3, .root_gradient = root});

      const at::Tensor h2 = twin(h);
      const at::Tensor weight2 = weight.detach().to(type).to(at::kDouble).requires_grad_(true);
      const at::Tensor expected =
          at::cross_entropy_loss(at::matmul(h2, weight2.t()).reshape({-1, s.vocab_size}),
                                 targets.reshape({-1}), {}, at::Reduction::Sum, -100) *
          0.3;
      EXPECT_EQ(actual.scalar_type(), at::kFloat);
      // bf16 logits of size 2 are wrong by 2^-8; the sum over thousands averages that out.
      EXPECT_NEAR(actual.item<double>() / expected.item<double>(), 1,
                  type == at::kFloat ? 1e-5 : 2e-3)
          << name;
      // Promised or not, what comes in scales the gradient.
      (actual * 0.25).backward();
      (expected * 0.25).backward();
      EXPECT_EQ(h.grad().scalar_type(), type);
      EXPECT_EQ(weight.grad().scalar_type(), weight_type);
      // The probabilities of bf16 logits are wrong by 2^-8 of a logit: 4 bits more than a bound
      // of roundings knows.
      const double limit = type == at::kFloat ? 1e-5 : 1.2e-2;
      EXPECT_LE(relative_norm(h.grad(), h2.grad()), limit) << name;
      EXPECT_LE(relative_norm(weight.grad(), weight2.grad()), limit) << name;
    }
  }
}

}  // namespace
}  // namespace steplens
