#include "kernels/swiglu/swiglu.h"

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
  std::int64_t F;
};
constexpr Size kSizes[] = {{1, 1},    {3, 7},    {5, 8},     {4097, 768}, {37, 2048},
                           {5, 4099}, {3, 5632}, {1000, 12}, {0, 16}};

void check_size(const Size& size, ElementType type, std::int64_t misalignment) {
  SCOPED_TRACE("N=" + std::to_string(size.N) + " F=" + std::to_string(size.F) + " " +
               std::string(element_name(type)) + " misaligned by " + std::to_string(misalignment));
  const std::int64_t count = size.N * size.F;
  // Gates as far out as 12: where silu is flat and where it is the identity.
  const auto gate_up = random_values(2 * count, type, 1, 3.0);
  const auto dy = random_values(count, type, 2);
  const auto expected_y = reference::swiglu_forward(gate_up, size.F);
  DeviceTensor device_gate_up(type, gate_up, misalignment);
  DeviceTensor device_dy(type, dy, misalignment);
  DeviceTensor y(type, count, misalignment);
  DeviceTensor y_again(type, count, misalignment);
  DeviceTensor dgate_up(type, 2 * count, misalignment);

  swiglu_forward(
      {.gate_up = device_gate_up.data(), .y = y.data(), .N = size.N, .F = size.F, .type = type},
      nullptr);
  EXPECT_LE(relative_norm(y.values(), expected_y), tolerance(type, count));
  SwigluBackwardArgs args{.dy = device_dy.data(),
                          .gate_up = device_gate_up.data(),
                          .dgate_up = dgate_up.data(),
                          .N = size.N,
                          .F = size.F,
                          .type = type};
  swiglu_backward(args, nullptr);
  const auto expected = reference::swiglu_backward(dy, gate_up, size.F);
  EXPECT_LE(relative_norm(dgate_up.values(), expected), tolerance(type, count));

  // In place, and with the output once more.
  args.dgate_up = device_gate_up.data();
  args.y = y_again.data();
  swiglu_backward(args, nullptr);
  EXPECT_EQ(device_gate_up.values(), dgate_up.values());
  EXPECT_LE(relative_norm(y_again.values(), expected_y), tolerance(type, count));
}

TEST(Swiglu, ForwardAndBackwardMatchTheReference) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const ElementType type : {kF, kB}) {
    for (const Size& size : kSizes) {
      check_size(size, type, 0);
      if (size.N <= 40) check_size(size, type, 1);
    }
  }
}

TEST(Swiglu, IsFiniteForLargeGates) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const std::vector<double> gate_up = {-1e4, -100, 100, 1e4, 2, 2, 2, 2};
  DeviceTensor device_gate_up(kF, gate_up);
  DeviceTensor dy(kF, std::vector<double>(4, 1.0));
  DeviceTensor y(kF, 4);
  DeviceTensor dgate_up(kF, 8);
  swiglu_forward({.gate_up = device_gate_up.data(), .y = y.data(), .N = 1, .F = 4}, nullptr);
  swiglu_backward({.dy = dy.data(),
                   .gate_up = device_gate_up.data(),
                   .dgate_up = dgate_up.data(),
                   .N = 1,
                   .F = 4},
                  nullptr);
  const std::vector<double> expected_y = {0, 0, 200, 2e4};
  const std::vector<double> expected = {0, 0, 2, 2, 0, 0, 100, 1e4};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y.values()[i], expected_y[i], 1e-6);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(dgate_up.values()[i], expected[i], 1e-6);
}

TEST(Swiglu, RefusesWhatItDoesNotCompute) {
  EXPECT_THROW(swiglu_forward({.N = -1, .F = 8}, nullptr), ConfigError);
  EXPECT_THROW(swiglu_backward({.N = 1, .F = 0}, nullptr), ConfigError);
}

TEST(Swiglu, MinimumBytesCountEachTensorOnce) {
  EXPECT_EQ(minimum_bytes(SwigluForwardArgs{.N = 10, .F = 4, .type = kB}), 40 * 3 * 2);
  EXPECT_EQ(minimum_bytes(SwigluBackwardArgs{.N = 10, .F = 4}), 40 * 5 * 4);
}

}  // namespace
}  // namespace steplens
