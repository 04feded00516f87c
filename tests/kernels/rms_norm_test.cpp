#include "kernels/rms_norm/rms_norm.h"

#include <string>

#include "tests/kernels/device_tensor.h"
#include "tests/kernels/reference.h"
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr ElementType kF = ElementType::kFloat32;
constexpr ElementType kB = ElementType::kBfloat16;

struct Size {
  std::int64_t N;
  std::int64_t C;
};
// Each configuration of the vector kernels, with rows that fill it and that do not; odd lengths;
// more rows than blocks.
constexpr Size kSizes[] = {{1, 1},     {3, 7},    {5, 8},     {1000, 96}, {4097, 768}, {33, 776},
                           {37, 2048}, {9, 4096}, {300, 520}, {5, 4099},  {3, 8192},   {2, 8200},
                           {0, 768},   {1, 768},  {2048, 64}, {700, 1032}};

// One combination of types; `has_residual` also says whether a gradient comes past the norm.
struct Types {
  ElementType x;
  ElementType stream;
  ElementType y;
  ElementType weight;
  bool has_residual;
};
constexpr Types kTypes[] = {{kF, kF, kF, kF, true},  {kB, kB, kB, kB, true},
                            {kB, kB, kB, kF, true},  {kB, kF, kB, kF, true},
                            {kF, kF, kF, kB, false}, {kB, kB, kB, kF, false},
                            {kF, kF, kB, kF, false}};

std::string describe(std::string_view variant, const Size& size, const Types& types,
                     std::int64_t misalignment) {
  return std::string(variant) + " N=" + std::to_string(size.N) + " C=" + std::to_string(size.C) +
         " x " + std::string(element_name(types.x)) + " stream " +
         std::string(element_name(types.stream)) + " y " + std::string(element_name(types.y)) +
         " weight " + std::string(element_name(types.weight)) + " residual " +
         std::to_string(types.has_residual) + " misaligned by " + std::to_string(misalignment);
}

void check_forward(const Size& size, const Types& types, std::int64_t misalignment) {
  const std::int64_t count = size.N * size.C;
  const auto x = random_values(count, types.x, 1);
  const auto residual =
      types.has_residual ? random_values(count, types.stream, 2, 3.0) : std::vector<double>{};
  const auto weight = random_values(size.C, types.weight, 3);
  const auto expected = reference::rms_norm_forward(
      x, residual, weight, 1e-5, [&](double value) { return rounded(value, types.stream); });
  DeviceTensor device_x(types.x, x, misalignment);
  DeviceTensor device_residual(types.stream, residual, misalignment);
  DeviceTensor device_weight(types.weight, weight, misalignment);

  for (const RmsNormForwardVariant& variant : rms_norm_forward_variants()) {
    SCOPED_TRACE(describe(variant.name, size, types, misalignment));
    DeviceTensor r(types.stream, types.has_residual ? count : 0, misalignment);
    DeviceTensor y(types.y, count, misalignment);
    DeviceTensor rstd(kF, size.N);
    const RmsNormForwardArgs args{.x = device_x.data(),
                                  .residual = types.has_residual ? device_residual.data() : nullptr,
                                  .weight = device_weight.data(),
                                  .r = types.has_residual ? r.data() : nullptr,
                                  .y = y.data(),
                                  .rstd = rstd.floats(),
                                  .N = size.N,
                                  .C = size.C,
                                  .x_type = types.x,
                                  .stream_type = types.stream,
                                  .y_type = types.y,
                                  .weight_type = types.weight};
    if (!variant.is_applicable(args)) continue;
    variant.launch(args, nullptr);
    EXPECT_LE(relative_norm(y.values(), expected.y), tolerance(types.y, count));
    EXPECT_LE(relative_norm(rstd.values(), expected.rstd), tolerance(kF));
    // A sum that lies between two neighbours may be rounded in float32 before it is rounded.
    if (types.has_residual) {
      EXPECT_LE(relative_norm(r.values(), expected.r), 1e-4);
    }
  }
}

void check_backward(const Size& size, const Types& types, std::int64_t misalignment) {
  const std::int64_t count = size.N * size.C;
  const auto r = random_values(count, types.stream, 1, 3.0);
  const auto weight = random_values(size.C, types.weight, 2);
  const auto dy = random_values(count, types.y, 3);
  const auto dr_in =
      types.has_residual ? random_values(count, types.stream, 4) : std::vector<double>{};
  auto rstd = reference::rms_norm_forward(r, {}, weight, 1e-5).rstd;
  for (double& value : rstd) value = rounded(value, kF);
  const auto expected = reference::rms_norm_backward(dy, r, rstd, weight, dr_in);
  // The first term of dr: where C is small the second all but cancels it.
  std::vector<double> scale(r.size());
  for (std::size_t i = 0; i < r.size(); ++i) {
    scale[i] = dy[i] * weight[i % weight.size()] * rstd[i / weight.size()];
    if (types.has_residual) scale[i] += dr_in[i];
  }
  const bool stores_dx = types.y == kB && types.stream == kF;
  DeviceTensor device_r(types.stream, r, misalignment);
  DeviceTensor device_weight(types.weight, weight, misalignment);
  DeviceTensor device_dy(types.y, dy, misalignment);
  DeviceTensor device_dr_in(types.stream, dr_in, misalignment);
  DeviceTensor device_rstd(kF, rstd);
  DeviceWorkspace workspace(rms_norm_backward_workspace_bytes(size.N, size.C));

  for (const RmsNormBackwardVariant& variant : rms_norm_backward_variants()) {
    SCOPED_TRACE(describe(variant.name, size, types, misalignment));
    DeviceTensor dr(types.stream, count, misalignment);
    DeviceTensor dx(kB, stores_dx ? count : 0, misalignment);
    DeviceTensor dweight(kF, size.C);
    const RmsNormBackwardArgs args{.dy = device_dy.data(),
                                   .r = device_r.data(),
                                   .rstd = device_rstd.floats(),
                                   .weight = device_weight.data(),
                                   .dr_in = types.has_residual ? device_dr_in.data() : nullptr,
                                   .dr = dr.data(),
                                   .dx = stores_dx ? dx.data() : nullptr,
                                   .dweight = dweight.floats(),
                                   .workspace = workspace.data(),
                                   .N = size.N,
                                   .C = size.C,
                                   .dy_type = types.y,
                                   .stream_type = types.stream,
                                   .weight_type = types.weight};
    if (!variant.is_applicable(args)) continue;
    variant.launch(args, nullptr);
    const auto first_dweight = dweight.values();
    EXPECT_LE(relative_norm(dr.values(), expected.dr, scale), tolerance(types.stream, count));
    if (stores_dx) {
      EXPECT_LE(relative_norm(dx.values(), expected.dr, scale), tolerance(kB, count));
    }
    EXPECT_LE(relative_norm(first_dweight, expected.dweight), 1e-5);
    variant.launch(args, nullptr);
    EXPECT_EQ(dweight.values(), first_dweight) << "not deterministic";
  }
}

template <typename Check>
void for_each_case(Check check) {
  for (const Types& types : kTypes) {
    for (const Size& size : kSizes) {
      check(size, types, 0);
      if (size.N <= 40) check(size, types, 1);
    }
  }
}

TEST(RmsNormForward, EveryVariantMatchesTheReference) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for_each_case(check_forward);
}

TEST(RmsNormBackward, EveryVariantMatchesTheReferenceTwiceAlike) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for_each_case([](const Size& size, const Types& types, std::int64_t misalignment) {
    // Of no rows dweight is zero: its relative norm would be 0 / 0.
    if (size.N > 0 && !(types.x == kF && types.y == kB)) check_backward(size, types, misalignment);
  });
}

// Five rows and more for each group of threads of an H200, in every configuration of the vector
// kernels, and written over what was read ahead.
TEST(RmsNormBackward, WalksOverManyRowsInPlace) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const Size& size :
       {Size{11000, 64}, Size{11000, 264}, Size{3000, 1032}, Size{1500, 2056}, Size{700, 4104}}) {
    const std::int64_t count = size.N * size.C;
    const auto r = random_values(count, kB, 1, 3.0);
    const auto weight = random_values(size.C, kF, 2);
    const auto dy = random_values(count, kB, 3);
    const auto dr_in = random_values(count, kB, 4);
    auto rstd = reference::rms_norm_forward(r, {}, weight, 1e-5).rstd;
    for (double& value : rstd) value = rounded(value, kF);
    const auto expected = reference::rms_norm_backward(dy, r, rstd, weight, dr_in);
    DeviceTensor device_r(kB, r);
    DeviceTensor device_weight(kF, weight);
    DeviceTensor device_rstd(kF, rstd);
    DeviceWorkspace workspace(rms_norm_backward_workspace_bytes(size.N, size.C));
    for (const RmsNormBackwardVariant& variant : rms_norm_backward_variants()) {
      for (const bool is_over_dy : {true, false}) {
        SCOPED_TRACE(std::string(variant.name) + " N=" + std::to_string(size.N) +
                     " C=" + std::to_string(size.C) + (is_over_dy ? " over dy" : " over dr_in"));
        DeviceTensor device_dy(kB, dy);
        DeviceTensor device_dr_in(kB, dr_in);
        DeviceTensor dweight(kF, size.C);
        DeviceTensor& dr = is_over_dy ? device_dy : device_dr_in;
        const RmsNormBackwardArgs args{.dy = device_dy.data(),
                                       .r = device_r.data(),
                                       .rstd = device_rstd.floats(),
                                       .weight = device_weight.data(),
                                       .dr_in = device_dr_in.data(),
                                       .dr = dr.data(),
                                       .dweight = dweight.floats(),
                                       .workspace = workspace.data(),
                                       .N = size.N,
                                       .C = size.C,
                                       .dy_type = kB,
                                       .stream_type = kB};
        ASSERT_TRUE(variant.is_applicable(args));
        variant.launch(args, nullptr);
        EXPECT_LE(relative_norm(dr.values(), expected.dr), tolerance(kB, count));
        EXPECT_LE(relative_norm(dweight.values(), expected.dweight), 1e-5);
      }
    }
  }
}

TEST(RmsNormBackward, OfNoRowsGivesZeroWeightGradient) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  DeviceTensor dweight(kF, 768);
  DeviceTensor weight(kF, std::vector<double>(768, 1.0));
  DeviceWorkspace workspace(rms_norm_backward_workspace_bytes(0, 768));
  rms_norm_backward({.weight = weight.data(),
                     .dweight = dweight.floats(),
                     .workspace = workspace.data(),
                     .N = 0,
                     .C = 768},
                    nullptr);
  EXPECT_EQ(dweight.values(), std::vector<double>(768, 0.0));
}

TEST(RmsNormForward, WorksInPlace) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  constexpr std::int64_t kN = 50;
  constexpr std::int64_t kC = 768;
  const auto x = random_values(kN * kC, kB, 1);
  const auto residual = random_values(kN * kC, kB, 2);
  const auto weight = random_values(kC, kF, 3);
  const auto expected = reference::rms_norm_forward(
      x, residual, weight, 1e-5, [](double value) { return rounded(value, kB); });
  DeviceTensor device_x(kB, x);
  DeviceTensor stream(kB, residual);
  DeviceTensor device_weight(kF, weight);
  rms_norm_forward({.x = device_x.data(),
                    .residual = stream.data(),
                    .weight = device_weight.data(),
                    .r = stream.data(),
                    .y = device_x.data(),
                    .N = kN,
                    .C = kC,
                    .x_type = kB,
                    .stream_type = kB,
                    .y_type = kB},
                   nullptr);
  EXPECT_LE(relative_norm(device_x.values(), expected.y), tolerance(kB));
  EXPECT_LE(relative_norm(stream.values(), expected.r), 1e-4);
}

TEST(RmsNorm, RefusesWhatItDoesNotCompute) {
  // x bfloat16, y float32.
  EXPECT_THROW(rms_norm_forward({.N = 1, .C = 8, .x_type = kB}, nullptr), ConfigError);
  EXPECT_THROW(rms_norm_forward({.N = 1, .C = 0}, nullptr), ConfigError);
  EXPECT_THROW(rms_norm_backward({.N = -1, .C = 8}, nullptr), ConfigError);
  // dy float32 beside a bfloat16 stream.
  EXPECT_THROW(rms_norm_backward({.N = 1, .C = 8, .stream_type = kB}, nullptr), ConfigError);
}

TEST(RmsNorm, MinimumBytesCountEachTensorOnce) {
  float something = 0;
  const RmsNormForwardArgs forward{.residual = &something,
                                   .rstd = &something,
                                   .N = 10,
                                   .C = 4,
                                   .x_type = kB,
                                   .stream_type = kF,
                                   .y_type = kB};
  // x and y 2 bytes, residual and r 4 bytes, a float32 weight, rstd.
  EXPECT_EQ(minimum_bytes(forward), 40 * (2 + 2 + 4 + 4) + 4 * 4 + 10 * 4);
  const RmsNormBackwardArgs backward{.dr_in = &something, .N = 10, .C = 4};
  // dy, r, dr_in, dr; rstd; weight and dweight.
  EXPECT_EQ(minimum_bytes(backward), 40 * 16 + 10 * 4 + 4 * 8);
}

}  // namespace
}  // namespace steplens
