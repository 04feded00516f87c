#include "reports/breakdown/waterfall.h"

#include <numeric>
#include <random>

#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view kMlp = "step/micro-step/forward/block 0/mlp";

std::int64_t sum_ns(const std::vector<WaterfallRow>& rows) {
  std::int64_t sum_ns = 0;
  for (const WaterfallRow& row : rows) sum_ns += row.difference_ns;
  return sum_ns;
}

// Each list must account for the whole difference, to the nanosecond.
void expect_exact(const Waterfall& waterfall) {
  EXPECT_EQ(sum_ns(waterfall.categories), waterfall.difference_ns);
  EXPECT_EQ(sum_ns(waterfall.phases), waterfall.difference_ns);
  EXPECT_EQ(sum_ns(waterfall.module_kinds), waterfall.difference_ns);
  std::int64_t kernels_ns = waterfall.idle.difference_ns;
  for (const KernelDifference& kernel : waterfall.kernels) kernels_ns += kernel.row.difference_ns;
  EXPECT_EQ(kernels_ns, waterfall.difference_ns);
  EXPECT_EQ(waterfall.candidate_step_ns - waterfall.reference_step_ns, waterfall.difference_ns);
}

TEST(Apportion, GivesTheLargestRemaindersTheCeiling) {
  // 1/3 + 1/3 + 4/3 = 2: the floors are 0, 0, 1, and the first of the equal remainders gets one.
  EXPECT_THAT(apportion(std::vector<Numerator>{1, 1, 4}, 3), ElementsAre(1, 0, 1));
  // -1/2 - 1/4 = -3/4, rounded -1: floors -1 and -1.
  EXPECT_THAT(apportion(std::vector<Numerator>{-2, -1}, 4), ElementsAre(-1, 0));
  EXPECT_THAT(apportion(std::vector<Numerator>{6, -9}, 3), ElementsAre(2, -3));
  EXPECT_THAT(apportion(std::vector<Numerator>{}, 3), ElementsAre());
}

TEST(Apportion, AlwaysSumsToTheRoundedSum) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    const Numerator denominator = 1 + static_cast<std::int64_t>(random() % 50);
    std::vector<Numerator> numerators(1 + random() % 12);
    Numerator sum = 0;
    for (Numerator& numerator : numerators) {
      numerator = static_cast<std::int64_t>(random() % 2001) - 1000;
      sum += numerator;
    }
    const std::vector<std::int64_t> parts = apportion(numerators, denominator);
    const auto total = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
    ASSERT_LE(std::abs(static_cast<double>(2 * (total * denominator - sum))),
              static_cast<double>(denominator));
    for (std::size_t k = 0; k < parts.size(); ++k) {
      ASSERT_LT(std::abs(static_cast<double>(parts[k] * denominator - numerators[k])),
                static_cast<double>(denominator));
    }
  }
}

// Three closed steps of 100, 100 and 101 ns against two of 80 and 91.
Breakdown reference() {
  TraceBuilder builder;
  std::int64_t t = 0;
  for (const std::int32_t step : {0, 1, 2, 3}) {
    builder.kernel("nvjet_a", t, t + 50, step, kMlp);
    builder.kernel("softmax_warp_forward", t + 50, t + 80, step,
                   "step/micro-step/forward/block 0/attention");
    t += step == 2 ? 101 : 100;
  }
  return compute_breakdown(builder.trace());
}
Breakdown candidate() {
  TraceBuilder builder;
  std::int64_t t = 0;
  for (const std::int32_t step : {0, 1, 2}) {
    builder.kernel("nvjet_a", t, t + 51 + step, step, kMlp);
    builder.kernel("flash_fwd_kernel", t + 60, t + 71, step,
                   "step/micro-step/forward/block 0/attention");
    t += step == 1 ? 91 : 80;
  }
  return compute_breakdown(builder.trace());
}

// For arms that both have steps.
Waterfall waterfall_of(const Breakdown& from, const Breakdown& to) {
  return compute_waterfall(from, to).value_or(Waterfall());
}

// Means: step 301/3 = 100.33 and 171/2 = 85.5, so -14.83; gemm 50 and 51.5, +1.5; attention 30 and
// 11, -19; idle 61/3 = 20.33 and 46/2 = 23, +2.67.
TEST(ComputeWaterfall, SharesOutTheDifferenceToTheNanosecond) {
  const Waterfall waterfall = waterfall_of(reference(), candidate());
  EXPECT_EQ(waterfall.difference_ns, -15);
  EXPECT_EQ(waterfall.reference_step_ns, 100);
  EXPECT_EQ(waterfall.candidate_step_ns, 85);
  expect_exact(waterfall);
  std::map<std::string, std::int64_t> rows;
  for (const WaterfallRow& row : waterfall.categories) rows[row.key] = row.difference_ns;
  // Floors 1, -19, 2 sum to -16: one more goes to the largest remainder, idle's 0.67.
  EXPECT_EQ(rows.at("gemm"), 1);
  EXPECT_EQ(rows.at("attention"), -19);
  EXPECT_EQ(rows.at("idle.unknown"), 3);
  EXPECT_EQ(rows.at("idle.sync"), 0);
}

TEST(ComputeWaterfall, NamesTheKernelsThatCameWentAndChanged) {
  const Waterfall waterfall = waterfall_of(reference(), candidate());
  ASSERT_EQ(waterfall.kernels.size(), 3);
  EXPECT_EQ(waterfall.kernels[0].row.key, "softmax_warp_forward");
  EXPECT_EQ(waterfall.kernels[0].change, KernelChange::kOnlyInReference);
  EXPECT_EQ(waterfall.kernels[0].row.difference_ns, -30);
  EXPECT_EQ(waterfall.kernels[1].row.key, "flash_fwd_kernel");
  EXPECT_EQ(waterfall.kernels[1].change, KernelChange::kOnlyInCandidate);
  EXPECT_EQ(waterfall.kernels[1].num_candidate_operations, 1);
  EXPECT_EQ(waterfall.kernels[2].change, KernelChange::kChanged);
  EXPECT_EQ(name_of(waterfall.kernels[2].change), "changed");
  EXPECT_EQ(to_json(waterfall).at("kernels").at(0).at("change"), "only_in_reference");
}

TEST(ComputeWaterfall, OfAnArmWithItselfIsZero) {
  const Waterfall waterfall = waterfall_of(reference(), reference());
  EXPECT_EQ(waterfall.difference_ns, 0);
  for (const WaterfallRow& row : waterfall.categories) EXPECT_EQ(row.difference_ns, 0);
  expect_exact(waterfall);
}

TEST(ComputeWaterfall, IsAbsentWithoutSteps) {
  EXPECT_EQ(compute_waterfall(reference(), Breakdown()), std::nullopt);
}

TEST(ComputeWaterfall, IsExactForAnyTwoTraces) {
  constexpr std::array<std::string_view, 5> kNames = {"aten::mm", "flash_fwd", "ncclDevKernel",
                                                      "aten::sum", "aten::add"};
  std::mt19937 random(4);
  const auto draw = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  const auto any_breakdown = [&] {
    TraceBuilder builder;
    std::int64_t t = 1;
    const int num_steps = 2 + draw(6);
    for (std::int32_t step = 0; step < num_steps; ++step) {
      const int num_kernels = 1 + draw(8);
      for (int i = 0; i < num_kernels; ++i) {
        builder.kernel(kNames[static_cast<std::size_t>(draw(5))], t, t + draw(1000), step,
                       draw(2) == 0 ? kMlp : "step/optimizer");
        t += draw(700);
      }
    }
    return compute_breakdown(builder.trace());
  };
  for (int i = 0; i < 300; ++i) {
    const Waterfall waterfall = waterfall_of(any_breakdown(), any_breakdown());
    ASSERT_GT(waterfall.reference_step_ns, 0);
    expect_exact(waterfall);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace steplens
