#include "kernels/dropout/dropout.h"

#include <string>

#include "tests/kernels/device_tensor.h"
#include "tests/kernels/reference.h"
#include <gtest/gtest.h>

#include "harness/error.h"
#include "kernels/rms_norm/rms_norm.h"

namespace steplens {
namespace {

constexpr ElementType kF = ElementType::kFloat32;
constexpr ElementType kB = ElementType::kBfloat16;

// The header's definition, element by element.
std::vector<double> factors(std::int64_t count, double probability, std::uint64_t seed,
                            std::uint64_t step, std::uint32_t call_index) {
  const auto threshold = static_cast<unsigned>(std::lround(probability * 65536));
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto group = static_cast<std::uint64_t>(i / 8);
    const PhiloxWords words =
        philox({{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                 call_index, static_cast<std::uint32_t>(step)}},
               {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
    const unsigned pair = words.words[i % 8 / 2];
    const unsigned word = i % 2 == 0 ? pair % 65536 : pair / 65536;
    result.push_back(word >= threshold ? 65536.0 / (65536.0 - threshold) : 0.0);
  }
  return result;
}

std::vector<double> times(std::vector<double> x, const std::vector<double>& factor) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= factor[i];
  return x;
}

class DeviceStep {
 public:
  explicit DeviceStep(std::int64_t value) {
    SL_CUDA(cudaMalloc(&data_, 8));
    SL_CUDA(cudaMemcpy(data_, &value, 8, cudaMemcpyHostToDevice));
  }
  ~DeviceStep() { cudaFree(data_); }
  DeviceStep(const DeviceStep&) = delete;
  DeviceStep& operator=(const DeviceStep&) = delete;
  const std::int64_t* data() const { return static_cast<const std::int64_t*>(data_); }

 private:
  void* data_ = nullptr;
};

// The generator's authors publish these (Random123, kat_vectors, philox4x32 of 10 rounds).
TEST(Philox, GivesItsAuthorsKnownAnswers) {
  static_assert(philox({{0, 0, 0, 0}}, {{0, 0}}) ==
                PhiloxWords{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  constexpr std::uint32_t kAll = 0xffffffff;
  static_assert(philox({{kAll, kAll, kAll, kAll}}, {{kAll, kAll}}) ==
                PhiloxWords{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  static_assert(
      philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}) ==
      PhiloxWords{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(DropoutOnHost, DropsTheShareThatIsAskedForAndKeepsTheMean) {
  constexpr std::int64_t kCount = 1'000'003;
  const std::vector<float> ones(kCount, 1.0f);
  for (const double probability : {0.0, 0.1, 0.5}) {
    std::vector<float> y(kCount, NAN);
    const std::int64_t step = 3;
    dropout_on_host({.x = ones.data(),
                     .y = y.data(),
                     .count = kCount,
                     .mask = {.probability = probability, .seed = 5, .step = &step}});
    std::int64_t num_dropped = 0;
    double sum = 0;
    for (const float value : y) {
      num_dropped += value == 0 ? 1 : 0;
      sum += value;
    }
    // A binomial count of a million: five standard deviations are 0.25 % at most.
    EXPECT_NEAR(static_cast<double>(num_dropped) / kCount, probability, 2.5e-3);
    EXPECT_NEAR(sum / kCount, 1, 5e-3);
  }
}

TEST(DropoutOnHost, DrawsByItsDefinitionAndAnewByStepCallAndSeed) {
  constexpr std::int64_t kCount = 100;
  const std::vector<float> ones(kCount, 1.0f);
  const auto draw = [&](std::uint64_t seed, std::int64_t step, std::uint32_t call_index) {
    std::vector<float> y(kCount, NAN);
    dropout_on_host(
        {.x = ones.data(),
         .y = y.data(),
         .count = kCount,
         .mask = {.probability = 0.3, .seed = seed, .step = &step, .call_index = call_index}});
    return std::vector<double>(y.begin(), y.end());
  };
  const std::uint64_t seed = 0x1234567890abcdef;
  const std::vector<double> first = draw(seed, 7, 2);
  const std::vector<double> expected = factors(kCount, 0.3, seed, 7, 2);
  EXPECT_LE(relative_norm(first, expected), 1e-6);
  EXPECT_EQ(draw(seed, 7, 2), first);
  EXPECT_NE(draw(seed, 8, 2), first);
  EXPECT_NE(draw(seed, 7, 3), first);
  EXPECT_NE(draw(seed + (std::uint64_t{1} << 40), 7, 2), first);
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  float value = 1;
  for (const double probability : {-0.1, 1.0, std::nan("")}) {
    const DropoutArgs args = {
        .x = &value, .y = &value, .count = 1, .mask = {.probability = probability}};
    EXPECT_THROW(dropout_on_host(args), ConfigError);
    EXPECT_THROW(dropout(args, nullptr), ConfigError);
  }
  EXPECT_THROW(rms_norm_forward({.N = 1, .C = 8, .dropout = {.probability = 0.1}}, nullptr),
               ConfigError)
      << "no residual";
  EXPECT_THROW(rms_norm_backward({.N = 1, .C = 8, .dropout = {.probability = 0.1}}, nullptr),
               ConfigError)
      << "nowhere to put dx";
}

TEST(Dropout, EqualsItsDefinitionInAllTypesSizesAndAlignments) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const DeviceStep step(11);
  for (const ElementType type : {kF, kB}) {
    for (const std::int64_t count : {1, 7, 8, 1000, 100'003}) {
      for (const std::int64_t misalignment : {0, 1}) {
        const auto x = random_values(count, type, 1);
        DeviceTensor device_x(type, x, misalignment);
        DeviceTensor y(type, count, misalignment);
        dropout({.x = device_x.data(),
                 .y = y.data(),
                 .count = count,
                 .mask = {.probability = 0.1, .seed = 9, .step = step.data(), .call_index = 4},
                 .type = type},
                nullptr);
        EXPECT_LE(relative_norm(y.values(), times(x, factors(count, 0.1, 9, 11, 4))),
                  tolerance(type, count))
            << element_name(type) << " " << count << " misaligned by " << misalignment;
      }
    }
  }
}

struct Types {
  ElementType branch, stream;
};

TEST(RmsNorm, DropsItsBranchForthAndBackAlikeInEveryVariant) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  struct Size {
    std::int64_t N, C;
  };
  const DeviceStep step(3);
  const DropoutMask mask = {.probability = 0.25, .seed = 17, .step = step.data(), .call_index = 6};
  for (const Types& types : {Types{kF, kF}, Types{kB, kB}, Types{kB, kF}}) {
    for (const Size& size : {Size{3, 7}, Size{1000, 96}, Size{700, 768}, Size{37, 2048}}) {
      const std::int64_t count = size.N * size.C;
      const auto factor = factors(count, 0.25, 17, 3, 6);
      const auto x = random_values(count, types.branch, 1);
      const auto residual = random_values(count, types.stream, 2, 3.0);
      const auto weight = random_values(size.C, kF, 3);
      const auto expected =
          reference::rms_norm_forward(times(x, factor), residual, weight, 1e-5,
                                      [&](double value) { return rounded(value, types.stream); });
      DeviceTensor device_x(types.branch, x);
      DeviceTensor device_residual(types.stream, residual);
      DeviceTensor device_weight(kF, weight);
      const std::string name = std::string(element_name(types.branch)) + " in " +
                               std::string(element_name(types.stream)) + " " +
                               std::to_string(size.N) + " x " + std::to_string(size.C);
      for (const RmsNormForwardVariant& variant : rms_norm_forward_variants()) {
        DeviceTensor r(types.stream, count);
        DeviceTensor y(types.branch, count);
        const RmsNormForwardArgs args{.x = device_x.data(),
                                      .residual = device_residual.data(),
                                      .weight = device_weight.data(),
                                      .r = r.data(),
                                      .y = y.data(),
                                      .N = size.N,
                                      .C = size.C,
                                      .x_type = types.branch,
                                      .stream_type = types.stream,
                                      .y_type = types.branch,
                                      .dropout = mask};
        if (!variant.is_applicable(args)) continue;
        variant.launch(args, nullptr);
        EXPECT_LE(relative_norm(y.values(), expected.y), tolerance(types.branch, count))
            << variant.name << " " << name;
        // A sum between two neighbours may be rounded in float32 first.
        EXPECT_LE(relative_norm(r.values(), expected.r), 1e-4) << variant.name << " " << name;
      }

      const auto dy = random_values(count, types.branch, 4);
      const auto dr_in = random_values(count, types.stream, 5);
      auto rstd = expected.rstd;
      for (double& value : rstd) value = rounded(value, kF);
      const auto gradients = reference::rms_norm_backward(dy, expected.r, rstd, weight, dr_in);
      DeviceTensor device_dy(types.branch, dy);
      DeviceTensor device_r(types.stream, expected.r);
      DeviceTensor device_rstd(kF, rstd);
      DeviceTensor device_dr_in(types.stream, dr_in);
      DeviceWorkspace workspace(rms_norm_backward_workspace_bytes(size.N, size.C));
      for (const RmsNormBackwardVariant& variant : rms_norm_backward_variants()) {
        DeviceTensor dr(types.stream, count);
        DeviceTensor dx(types.branch, count);
        DeviceTensor dweight(kF, size.C);
        const RmsNormBackwardArgs args{.dy = device_dy.data(),
                                       .r = device_r.data(),
                                       .rstd = device_rstd.floats(),
                                       .weight = device_weight.data(),
                                       .dr_in = device_dr_in.data(),
                                       .dr = dr.data(),
                                       .dx = dx.data(),
                                       .dweight = dweight.floats(),
                                       .workspace = workspace.data(),
                                       .N = size.N,
                                       .C = size.C,
                                       .dy_type = types.branch,
                                       .stream_type = types.stream,
                                       .dropout = mask};
        if (!variant.is_applicable(args)) continue;
        variant.launch(args, nullptr);
        EXPECT_LE(relative_norm(dr.values(), gradients.dr), tolerance(types.stream, count))
            << variant.name << " " << name;
        EXPECT_LE(relative_norm(dx.values(), times(gradients.dr, factor)),
                  tolerance(types.branch, count))
            << variant.name << " " << name;
        EXPECT_LE(relative_norm(dweight.values(), gradients.dweight), 1e-5)
            << variant.name << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace steplens
