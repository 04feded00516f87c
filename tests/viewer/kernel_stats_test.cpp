#include "viewer/data/kernel_stats.h"

#include <string>
#include <vector>

#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "viewer/data/hits.h"

namespace steplens {
namespace {

using testing::ElementsAre;

// Two steps of 100 gemms of 1..100 us, and a norm in the second one.
TraceBuilder gemms() {
  TraceBuilder builder;
  builder.trace().steps = {{.start_ns = 0, .end_ns = 10'000'000},
                           {.start_ns = 10'000'000, .end_ns = 20'000'000}};
  for (int step = 0; step < 2; ++step) {
    for (int i = 1; i <= 100; ++i) {
      const std::int64_t start_ns = step * 10'000'000 + i * 90'000;
      // Not in order of duration.
      const std::int64_t us = (i * 37) % 101;
      builder.kernel("ampere_sgemm_64x64", start_ns, start_ns + us * 1000, step,
                     "step/forward/block 3/mlp");
    }
  }
  builder.kernel("vectorized_layer_norm_kernel", 19'500'000, 19'500'500, 1,
                 "step/forward/block 3/norm");
  return builder;
}

TEST(KernelTable, HasCountTotalAndNearestRanks) {
  const auto model = make_trace_model(gemms().trace());
  const KernelTable table = compute_kernel_table(*model, std::nullopt);
  ASSERT_EQ(table.kernels.size(), 2U);
  EXPECT_EQ(table.num_steps, 2);
  const KernelStats& gemm = table.kernels[0];
  EXPECT_EQ(model->names.raw(gemm.name), "ampere_sgemm_64x64");
  EXPECT_EQ(gemm.category, KernelCategory::kGemm);
  EXPECT_EQ(gemm.count, 200);
  EXPECT_EQ(gemm.total_ns, 2 * 5050 * 1000);  // 1 + ... + 100 us, twice.
  EXPECT_EQ(gemm.mean_ns(), 50'500);
  EXPECT_EQ(gemm.min_ns, 1000);
  EXPECT_EQ(gemm.p50_ns, 50'000);
  EXPECT_EQ(gemm.p90_ns, 90'000);
  EXPECT_EQ(gemm.p99_ns, 99'000);
  EXPECT_EQ(gemm.max_ns, 100'000);
  EXPECT_DOUBLE_EQ(gemm.share_ratio, 10'100'000.0 / 10'100'500.0);
  EXPECT_EQ(model->slice(*find_operation(*model, gemm.longest_row)).duration_ns(), 100'000);
}

TEST(KernelTable, OfSomeStepsHasOnlyTheirs) {
  const auto model = make_trace_model(gemms().trace());
  const KernelTable table = compute_kernel_table(*model, StepSpan{0, 0});
  ASSERT_EQ(table.kernels.size(), 1U);
  EXPECT_EQ(table.kernels[0].count, 100);
  EXPECT_EQ(table.num_steps, 1);
}

TEST(KernelTable, TheHistogramHasEveryOperationInItsBin) {
  const auto model = make_trace_model(gemms().trace());
  const DurationHistogram histogram =
      compute_kernel_table(*model, std::nullopt).kernels[0].histogram;
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const int bin = histogram.first_bin + static_cast<int>(i);
    std::uint32_t expected = 0;
    for (int us = 1; us <= 100; ++us) {
      const double ns = us * 1000;
      if (ns >= DurationHistogram::lower_ns(bin) && ns < DurationHistogram::lower_ns(bin + 1)) {
        expected += 2;
      }
    }
    EXPECT_EQ(histogram.counts[i], expected) << bin;
    count += histogram.counts[i];
  }
  EXPECT_EQ(count, 200U);
}

TEST(KernelTable, BinsGrowByASixteenthOfAnOctave) {
  for (const std::int64_t ns : {0, 1, 2, 3, 15, 16, 17, 31, 32, 1000, 1023, 1024, 123'456'789}) {
    const int bin = DurationHistogram::bin_of(ns);
    EXPECT_LE(DurationHistogram::lower_ns(bin), std::max<double>(1, static_cast<double>(ns)));
    EXPECT_GT(DurationHistogram::lower_ns(bin + 1), static_cast<double>(ns));
  }
}

TEST(PairKernels, PutsTheLargestChangeAStepFirst) {
  const auto a = make_trace_model(gemms().trace());
  TraceBuilder other;
  other.trace().steps = {{.start_ns = 0, .end_ns = 10'000'000}};
  other.kernel("ampere_sgemm_64x64", 0, 50'000, 0);
  other.kernel("flash_fwd_kernel", 100'000, 107'000, 0);
  const auto b = make_trace_model(other.trace());
  const KernelTable table_a = compute_kernel_table(*a, std::nullopt);
  const KernelTable table_b = compute_kernel_table(*b, std::nullopt);
  const auto pairs = pair_kernels(table_a, a->names, table_b, b->names);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_DOUBLE_EQ(pairs[0].change_ns, 50'000 - 5'050'000.0);  // 10.1 ms over two steps.
  EXPECT_EQ(pairs[1].a, nullptr);                              // flash is new.
  EXPECT_DOUBLE_EQ(pairs[1].change_ns, 7000);
  EXPECT_EQ(pairs[2].b, nullptr);  // The norm is gone: 500 ns over two steps.
  EXPECT_DOUBLE_EQ(pairs[2].change_ns, -250);
}

std::size_t count_of(const TraceModel& model, HitQuery::Kind kind, const std::string& key) {
  return find_hits(model, {.kind = kind, .key = key}).count;
}

TEST(Hits, AreFoundByNameTextPhaseModuleAndCategory) {
  const auto model = make_trace_model(gemms().trace());
  EXPECT_EQ(count_of(*model, HitQuery::Kind::kKernel, "ampere_sgemm_64x64"), 200U);
  EXPECT_EQ(count_of(*model, HitQuery::Kind::kText, "LAYER_norm"), 1U);
  EXPECT_EQ(count_of(*model, HitQuery::Kind::kText, "nowhere"), 0U);
  EXPECT_EQ(count_of(*model, HitQuery::Kind::kPhase, "forward"), 201U);
  EXPECT_EQ(count_of(*model, HitQuery::Kind::kModule, "block/norm"), 1U);
  EXPECT_EQ(count_of(*model, HitQuery::Kind::kCategory, "gemm"), 200U);
}

TEST(Hits, AreVisitedInOrderOfTime) {
  const auto model = make_trace_model(gemms().trace());
  const Hits hits = find_hits(*model, {.key = "layer_norm"});
  const auto next = next_hit(*model, hits, 0);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(model->slice(*next).start_ns, 19'500'000);
  EXPECT_FALSE(next_hit(*model, hits, 19'500'000).has_value());
  EXPECT_FALSE(previous_hit(*model, hits, 19'500'000).has_value());
  EXPECT_EQ(previous_hit(*model, hits, 19'500'001), next);
}

}  // namespace
}  // namespace steplens
