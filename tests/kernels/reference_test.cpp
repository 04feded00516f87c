// The double references themselves: gradients against central finite differences, and worked
// examples. Needs no GPU.

#include "tests/kernels/reference.h"

#include <numbers>

#include "tests/kernels/device_tensor.h"
#include <gtest/gtest.h>

namespace steplens::reference {
namespace {

constexpr double kBound = 1e-8;  // Central differences of step 1e-5 in double.

Values random(std::int64_t count, unsigned seed) {
  return random_values(count, ElementType::kFloat32, seed);
}

TEST(RmsNormReference, WorkedExample) {
  // mean(3^2, 4^2) = 12.5, so y = (3, 4) / sqrt(12.5) times the weight.
  const RmsNormed result = rms_norm_forward({1, 4}, {2, 0}, {1, 2}, 0.0);
  EXPECT_EQ(result.r, (Values{3, 4}));
  EXPECT_NEAR(result.y[0], 3 / std::sqrt(12.5), 1e-15);
  EXPECT_NEAR(result.y[1], 8 / std::sqrt(12.5), 1e-15);
}

TEST(RmsNormReference, GradientsAreThoseOfFiniteDifferences) {
  constexpr std::int64_t kN = 3;
  constexpr std::int64_t kC = 7;
  constexpr double kEpsilon = 1e-3;
  const Values x = random(kN * kC, 1);
  const Values residual = random(kN * kC, 2);
  const Values weight = random(kC, 3);
  const Values dy = random(kN * kC, 4);
  const Values past = random(kN * kC, 5);
  const RmsNormed forward = rms_norm_forward(x, residual, weight, kEpsilon);
  const RmsNormGradients gradients = rms_norm_backward(dy, forward.r, forward.rstd, weight, past);

  // r reaches the loss through the norm and past it.
  Values seed = dy;
  seed.insert(seed.end(), past.begin(), past.end());
  const auto of_x = [&](const Values& changed) {
    const RmsNormed result = rms_norm_forward(changed, residual, weight, kEpsilon);
    Values both = result.y;
    both.insert(both.end(), result.r.begin(), result.r.end());
    return both;
  };
  const auto of_weight = [&](const Values& changed) {
    return rms_norm_forward(x, residual, changed, kEpsilon).y;
  };
  EXPECT_LT(relative_norm(gradients.dr, finite_differences(of_x, x, seed)), kBound);
  EXPECT_LT(relative_norm(gradients.dweight, finite_differences(of_weight, weight, dy)), kBound);
}

TEST(SwigluReference, WorkedExample) {
  // silu(0) = 0, silu(ln 3) = ln 3 * 3 / 4.
  const Values y = swiglu_forward({0, std::log(3.0), 5, 8}, 2);
  EXPECT_EQ(y[0], 0.0);
  EXPECT_NEAR(y[1], 6 * std::log(3.0), 1e-14);
}

TEST(SwigluReference, GradientsAreThoseOfFiniteDifferences) {
  constexpr std::int64_t kF = 5;
  const Values gate_up = random(3 * 2 * kF, 1);
  const Values dy = random(3 * kF, 2);
  const auto forward = [&](const Values& changed) { return swiglu_forward(changed, kF); };
  EXPECT_LT(
      relative_norm(swiglu_backward(dy, gate_up, kF), finite_differences(forward, gate_up, dy)),
      kBound);
}

TEST(RopeReference, TurnsByOneRadianPerTokenInTheFirstPair) {
  // Token 1, D = 4: the pair (0, 2) turns by 1, the pair (1, 3) by 1 / 100.
  const Values y = rope({0, 0, 0, 0, 1, 0, 0, 1}, /*T=*/2, /*heads=*/1, /*D=*/4, 1.0);
  EXPECT_NEAR(y[4], std::cos(1.0), 1e-15);
  EXPECT_NEAR(y[6], std::sin(1.0), 1e-15);
  EXPECT_NEAR(y[5], -std::sin(0.01), 1e-15);
  EXPECT_NEAR(y[7], std::cos(0.01), 1e-15);
}

TEST(RopeReference, GradientIsTheRotationBack) {
  const Values x = random(3 * 2 * 6, 1);
  const Values dy = random(3 * 2 * 6, 2);
  const auto forward = [](const Values& changed) { return rope(changed, 3, 2, 6, 1.0); };
  EXPECT_LT(relative_norm(rope(dy, 3, 2, 6, -1.0), finite_differences(forward, x, dy)), kBound);
}

TEST(EmbeddingReference, GradientIsThatOfFiniteDifferences) {
  const std::vector<std::int64_t> tokens = {2, 0, 2, 2};
  const Values table = random(4 * 3, 1);
  const Values dy = random(4 * 3, 2);
  const auto forward = [&](const Values& changed) { return embedding_forward(changed, tokens, 3); };
  EXPECT_LT(
      relative_norm(embedding_backward(dy, tokens, 3, 4), finite_differences(forward, table, dy)),
      kBound);
}

}  // namespace
}  // namespace steplens::reference
