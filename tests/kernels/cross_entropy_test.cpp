#include "kernels/cross_entropy/cross_entropy.h"

#include <limits>

#include "tests/kernels/device_tensor.h"
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::int64_t kIgnored = -100;

struct Reference {
  std::vector<double> losses, gradient;
};

// In double. `logits` (N, V).
Reference reference(const std::vector<double>& logits, const std::vector<std::int64_t>& targets,
                    double scale) {
  const std::size_t num_columns = logits.size() / targets.size();
  Reference result{.losses = std::vector<double>(targets.size()),
                   .gradient = std::vector<double>(logits.size())};
  for (std::size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] == kIgnored) continue;
    const double* row = logits.data() + n * num_columns;
    const double largest = *std::max_element(row, row + num_columns);
    double sum = 0;
    for (std::size_t v = 0; v < num_columns; ++v) sum += std::exp(row[v] - largest);
    const auto target = static_cast<std::size_t>(targets[n]);
    result.losses[n] = largest + std::log(sum) - row[target];
    for (std::size_t v = 0; v < num_columns; ++v) {
      result.gradient[n * num_columns + v] =
          scale * (std::exp(row[v] - largest) / sum - (v == target ? 1.0 : 0.0));
    }
  }
  return result;
}

std::vector<std::int64_t> random_targets(std::int64_t num_rows, std::int64_t num_columns,
                                         unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> column(0, num_columns - 1);
  std::vector<std::int64_t> targets;
  for (std::int64_t n = 0; n < num_rows; ++n) {
    targets.push_back(n % 5 == 3 ? kIgnored : column(random));
  }
  return targets;
}

// Spread of 4: largest probabilities of 0.01 to 0.9, where a spread of 1 would make all of them
// 1 / V and the gradient the target's column alone.
constexpr double kSpread = 4;

class DeviceTargets {
 public:
  explicit DeviceTargets(const std::vector<std::int64_t>& values) {
    SL_CUDA(cudaMalloc(&data_, values.size() * 8));
    SL_CUDA(cudaMemcpy(data_, values.data(), values.size() * 8, cudaMemcpyHostToDevice));
  }
  ~DeviceTargets() { cudaFree(data_); }
  DeviceTargets(const DeviceTargets&) = delete;
  DeviceTargets& operator=(const DeviceTargets&) = delete;
  const std::int64_t* data() const { return static_cast<const std::int64_t*>(data_); }

 private:
  void* data_ = nullptr;
};

constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kBfloat16};

// do_variant(variant, name), for each that takes rows of `num_columns`.
template <typename DoVariant>
void for_each_variant(ElementType type, std::int64_t num_columns, DoVariant do_variant) {
  for (const CrossEntropyVariant& variant : cross_entropy_variants()) {
    if (!variant.is_applicable({.N = 1, .V = num_columns, .type = type})) continue;
    do_variant(variant, std::string(variant.name) + " " + std::string(element_name(type)));
  }
}

TEST(CrossEntropyReference, HasTheGradientOfFiniteDifferences) {
  const std::vector<double> logits = random_values(3 * 7, ElementType::kFloat32, 1, kSpread);
  const std::vector<std::int64_t> targets = {6, kIgnored, 0};
  const Reference centre = reference(logits, targets, 2.5);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto sum_at = [&](double shift) {
      std::vector<double> moved = logits;
      moved[i] += shift;
      const Reference there = reference(moved, targets, 1);
      return 2.5 * (there.losses[0] + there.losses[1] + there.losses[2]);
    };
    EXPECT_NEAR(centre.gradient[i], (sum_at(1e-5) - sum_at(-1e-5)) / 2e-5, 1e-8) << i;
  }
  // A row by hand: logits 0 and ln 3 have probabilities 1/4 and 3/4.
  const Reference pair = reference({0, std::log(3.0)}, {1}, 1);
  EXPECT_NEAR(pair.losses[0], std::log(4.0 / 3.0), 1e-15);
  EXPECT_NEAR(pair.gradient[0], 0.25, 1e-15);
  EXPECT_NEAR(pair.gradient[1], -0.25, 1e-15);
}

TEST(CrossEntropy, RefusesWhatHasNoColumns) {
  EXPECT_THROW(cross_entropy({.N = 1, .V = 0}, nullptr), ConfigError);
  EXPECT_THROW(cross_entropy({.N = -1, .V = 8}, nullptr), ConfigError);
}

TEST(CrossEntropyArgs, KnowsItsBytes) {
  // 32768 x 50304 in bf16: 3.3 GB read and written.
  EXPECT_EQ(minimum_bytes(CrossEntropyArgs{.N = 32768, .V = 50304, .type = ElementType::kBfloat16}),
            2 * 32768LL * 50304 * 2 + 32768 * 12);
}

TEST(CrossEntropyVariants, TheFirstTakesEverythingTheOthersRowsThatFit) {
  const auto variants = cross_entropy_variants();
  ASSERT_EQ(variants.size(), 3U);
  const auto takes = [&](std::size_t index, std::int64_t num_columns, ElementType type) {
    return variants[index].is_applicable({.N = 1, .V = num_columns, .type = type});
  };
  constexpr ElementType kBf16 = ElementType::kBfloat16;
  EXPECT_TRUE(takes(0, 50257, kBf16));
  EXPECT_FALSE(takes(1, 50257, kBf16)) << "a row of no multiple of 16 bytes";
  EXPECT_FALSE(takes(2, 50257, kBf16));
  EXPECT_TRUE(takes(1, 50304, kBf16));
  EXPECT_TRUE(takes(2, 32768, kBf16));
  EXPECT_FALSE(takes(2, 32776, kBf16)) << "more registers than make it the faster one";
  EXPECT_FALSE(takes(2, 4096, ElementType::kFloat32));
  EXPECT_FALSE(takes(1, 128256, kBf16)) << "two rows take 513 kB";
}

TEST(CrossEntropy, EqualsTheReferenceInAllVariantsTypesAndSizes) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  struct Size {
    std::int64_t num_rows, num_columns, misalignment;
  };
  // Rows enough that a block's stages are filled again, with either parity of their barriers.
  constexpr Size kSizes[] = {{1, 1, 0},      {3, 7, 0},       {5, 8, 0},      {33, 100, 0},
                             {9, 1000, 3},   {300, 4096, 0},  {7, 50257, 0},  {7, 50257, 5},
                             {4, 50304, 0},  {400, 50304, 0}, {2, 128256, 0}, {5, 32000, 0},
                             {10000, 8, 0},  {1400, 4104, 0}, {3, 16384, 0},  {540, 32768, 0},
                             {400, 32776, 0}};
  for (const ElementType type : kTypes) {
    for (const Size& size : kSizes) {
      const std::vector<double> logits =
          random_values(size.num_rows * size.num_columns, type, 7, kSpread);
      const std::vector<std::int64_t> targets = random_targets(size.num_rows, size.num_columns, 11);
      const double scale = 0.375;
      const Reference expected = reference(logits, targets, scale);
      const DeviceTargets device_targets(targets);
      for (const CrossEntropyVariant& variant : cross_entropy_variants()) {
        DeviceTensor values(type, logits, size.misalignment);
        DeviceTensor losses(ElementType::kFloat32, size.num_rows);
        const CrossEntropyArgs args = {.logits = values.data(),
                                       .targets = device_targets.data(),
                                       .losses = losses.floats(),
                                       .scale = static_cast<float>(scale),
                                       .N = size.num_rows,
                                       .V = size.num_columns,
                                       .type = type};
        if (!variant.is_applicable(args)) continue;
        variant.launch(args, nullptr);
        const std::string name = std::string(variant.name) + " " + std::string(element_name(type)) +
                                 " " + std::to_string(size.num_rows) + " x " +
                                 std::to_string(size.num_columns);
        // fp32: 50,304 summands of which each exponential is right to 2^-22. bf16: the result is
        // rounded to 8 bits, 2^-9 at most and 0.6 of that in the mean of squares.
        const double bound = type == ElementType::kFloat32 ? 2e-6 : 2.0e-3;
        if (size.num_columns > 1) {
          EXPECT_LE(relative_norm(values.values(), expected.gradient), bound) << name;
          EXPECT_LE(relative_norm(losses.values(), expected.losses), 2e-6) << name;
        } else {  // One column has probability 1: all that is left is the rounding of its exponent.
          EXPECT_NEAR(values.values()[0], 0, 2e-6) << name;
          EXPECT_NEAR(losses.values()[0], 0, 2e-6) << name;
        }
        for (std::size_t n = 0; n < targets.size(); ++n) {
          if (targets[n] == kIgnored) {
            EXPECT_EQ(losses.values()[n], 0) << name;
          }
        }
      }
    }
  }
}

TEST(CrossEntropy, IsExactForRowsThatOverflowWithoutAMaximum) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  // Beside 1000 nothing else counts; a masked column of minus infinity has probability 0.
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> logits(64, -infinity);
  logits[3] = 1000;
  logits[9] = 1000;
  for (const ElementType type : kTypes) {
    for_each_variant(type, 64, [&](const CrossEntropyVariant& variant, const std::string& name) {
      DeviceTensor values(type, logits);
      DeviceTensor losses(ElementType::kFloat32, 1);
      const DeviceTargets targets({9});
      variant.launch({.logits = values.data(),
                      .targets = targets.data(),
                      .losses = losses.floats(),
                      .N = 1,
                      .V = 64,
                      .type = type},
                     nullptr);
      const std::vector<double> gradient = values.values();
      EXPECT_NEAR(losses.values()[0], std::log(2.0), 1e-6) << name;
      EXPECT_NEAR(gradient[3], 0.5, 1e-6) << name;
      EXPECT_NEAR(gradient[9], -0.5, 1e-6) << name;
      EXPECT_EQ(gradient[0], 0) << name;
    });
  }
}

TEST(CrossEntropy, ANotANumberShowsInTheLossOfItsRowAlone) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  constexpr std::int64_t kRows = 3, kColumns = 4096;
  for (const ElementType type : kTypes) {
    std::vector<double> logits = random_values(kRows * kColumns, type, 3, kSpread);
    logits[kColumns + 1234] = std::numeric_limits<double>::quiet_NaN();
    const auto check = [&](const CrossEntropyVariant& variant, const std::string& name) {
      DeviceTensor values(type, logits);
      DeviceTensor losses(ElementType::kFloat32, kRows);
      const DeviceTargets targets({1, 2, 3});
      variant.launch({.logits = values.data(),
                      .targets = targets.data(),
                      .losses = losses.floats(),
                      .N = kRows,
                      .V = kColumns,
                      .type = type},
                     nullptr);
      EXPECT_FALSE(std::isnan(losses.values()[0])) << name;
      EXPECT_TRUE(std::isnan(losses.values()[1])) << name;
      EXPECT_FALSE(std::isnan(losses.values()[2])) << name;
      EXPECT_TRUE(std::isnan(values.values()[kColumns + 7])) << name << ": the row's gradient";
    };
    for_each_variant(type, kColumns, check);
  }
}

// The loss depends on differences of logits alone, and so must its error: that of x log2(e) at
// x = 5000 is 3e-4 where it is rounded.
TEST(CrossEntropy, IsAsExactFarFromZeroAsNearIt) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  constexpr std::int64_t kRows = 20, kColumns = 4096;
  for (const double shift : {-5000.0, 300.0, 5000.0}) {
    std::vector<double> logits = random_values(kRows * kColumns, ElementType::kFloat32, 3, kSpread);
    for (double& logit : logits) logit = rounded(logit + shift, ElementType::kFloat32);
    const std::vector<std::int64_t> targets = random_targets(kRows, kColumns, 5);
    const Reference expected = reference(logits, targets, 1);
    const DeviceTargets device_targets(targets);
    for_each_variant(ElementType::kFloat32, kColumns,
                     [&](const CrossEntropyVariant& variant, const std::string& name) {
                       DeviceTensor values(ElementType::kFloat32, logits);
                       DeviceTensor losses(ElementType::kFloat32, kRows);
                       variant.launch({.logits = values.data(),
                                       .targets = device_targets.data(),
                                       .losses = losses.floats(),
                                       .N = kRows,
                                       .V = kColumns},
                                      nullptr);
                       EXPECT_LE(relative_norm(values.values(), expected.gradient), 2e-6)
                           << name << " " << shift;
                       EXPECT_LE(relative_norm(losses.values(), expected.losses), 2e-6)
                           << name << " " << shift;
                     });
  }
}

TEST(CrossEntropy, ATargetOutsideTheVocabularyShowsInTheLoss) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const ElementType type : kTypes) {
    for_each_variant(type, 64, [&](const CrossEntropyVariant& variant, const std::string& name) {
      DeviceTensor values(type, random_values(3 * 64, type, 2));
      DeviceTensor losses(ElementType::kFloat32, 3);
      const DeviceTargets targets({64, -1, 63});
      variant.launch({.logits = values.data(),
                      .targets = targets.data(),
                      .losses = losses.floats(),
                      .N = 3,
                      .V = 64,
                      .type = type},
                     nullptr);
      EXPECT_TRUE(std::isnan(losses.values()[0])) << name;
      EXPECT_TRUE(std::isnan(losses.values()[1])) << name;
      EXPECT_FALSE(std::isnan(losses.values()[2])) << name;
    });
  }
}

}  // namespace
}  // namespace steplens
