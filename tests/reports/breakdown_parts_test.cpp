#include "reports/breakdown/breakdown_parts.h"

#include "tests/reports/bundle_builder.h"
#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/section.h"

namespace steplens {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kUs = 1000;
constexpr std::string_view kAttention = "step/micro-step/forward/block 0/attention";

// Two steps of 1 ms: 500 us of gemm, then attention, then 100 us in which the host waits for data.
Trace trace(std::string_view attention, std::int64_t attention_us) {
  TraceBuilder builder;
  std::int64_t t = 0;
  for (const std::int32_t step : {0, 1}) {
    builder.kernel("nvjet_sm90_tst", t, t + 500 * kUs, step, "step/micro-step/forward/block 0/mlp");
    builder.launched(t - 10 * kUs, t - 5 * kUs);
    builder.kernel(attention, t + 500 * kUs, t + (500 + attention_us) * kUs, step, kAttention);
    builder.launched(t, t + 5 * kUs);
    t += (600 + attention_us) * kUs;
    builder.open("data", t - 200 * kUs, t - 20 * kUs);
  }
  return builder.trace();
}

std::vector<TracedArm> two_arms() {
  std::vector<TracedArm> arms;
  arms.push_back({.arm = "baseline",
                  .breakdown = compute_breakdown(trace("softmax_warp_forward", 400)),
                  .throughput_step_ns = 990e3});
  arms.push_back({.arm = "attention=flash",
                  .reference = "baseline",
                  .breakdown = compute_breakdown(trace("flash_fwd_kernel", 150)),
                  .throughput_step_ns = 600e3});
  return arms;
}

TEST(BreakdownTable, IsTheGoldenTable) {
  EXPECT_EQ("\n" + to_text(breakdown_table(two_arms())), R"(
arm                  step   compute      idle    busy  kernels  coverage  trace / throughput
--------------------------------------------------------------------------------------------
baseline         1.000 ms  900.0 us  100.0 us  90.0 %        2     100 %               1.010
attention=flash  750.0 us  650.0 us  100.0 us  86.7 %        2     100 %    1.250, distorted
)");
}

TEST(BreakdownTable, SaysWhatIsHidden) {
  TraceBuilder builder;
  builder.kernel("nvjet", 0, 100 * kUs, 0);
  builder.kernel("ncclDevKernel_AllReduce", 40 * kUs, 120 * kUs, 0);
  const std::vector<TracedArm> arms = {
      {.arm = "baseline", .breakdown = compute_breakdown(builder.trace())}};
  EXPECT_THAT(to_text(breakdown_table(arms)), HasSubstr("20.00 us (+ 60.00 us hidden)"));
}

TEST(IdleTable, NamesTheClassesThatOccur) {
  const std::string text = to_text(idle_table(two_arms()));
  EXPECT_THAT(text, StartsWith("arm                  idle  data wait  late launch\n"));
  EXPECT_THAT(text, HasSubstr("100.0 us   80.00 us     20.00 us\n"));
}

TEST(CategoryTable, HasAColumnForWhatOccurs) {
  const std::string text = to_text(category_table(two_arms()));
  EXPECT_THAT(text, StartsWith("arm                  gemm  attention\n"));
  EXPECT_THAT(text, HasSubstr("baseline         500.0 us   400.0 us\n"));
}

TEST(ModuleTable, SplitsByPhase) {
  EXPECT_THAT(to_text(module_table(two_arms()[0].breakdown)),
              AllOf(HasSubstr("block/mlp           500.0 us  50.0 %  500.0 us           1"),
                    HasSubstr("block/attention     400.0 us  40.0 %")));
}

TEST(KernelTable, PutsTheRestInOneRow) {
  const std::string text = to_text(kernel_table(two_arms()[0].breakdown, 1));
  EXPECT_THAT(text, HasSubstr("nvjet_sm90_tst  gemm         500.0 us  50.0 %      1  500.0 us"));
  EXPECT_THAT(text, HasSubstr("1 others                     400.0 us  40.0 %      1  400.0 us"));
}

TEST(WaterfallTable, SumsToTheStep) {
  const std::vector<TracedArm> arms = two_arms();
  const Waterfall waterfall =
      compute_waterfall(arms[0].breakdown, arms[1].breakdown).value_or(Waterfall());
  EXPECT_EQ("\n" + to_text(waterfall_table(waterfall, waterfall.categories)), R"(
part                        reference       arm  difference  of the reference's step
------------------------------------------------------------------------------------
attention                    400.0 us  150.0 us   -250.0 us                    -25 %
3 others, below 0.1 % each   600.0 us  600.0 us        0 ns                      0 %
step                         1.000 ms  750.0 us   -250.0 us                    -25 %
)");
  EXPECT_THAT(to_text(kernel_change_table(waterfall)),
              AllOf(HasSubstr("softmax_warp_forward  attention  gone    1 to 0   400.0 us"),
                    HasSubstr("flash_fwd_kernel      attention  new     0 to 1")));
}

TEST(BreakdownWarnings, AreLoudAboutLostDataAndDistortion) {
  std::vector<TracedArm> arms = two_arms();
  EXPECT_THAT(breakdown_warnings(arms),
              ElementsAre(AllOf(StartsWith("attention=flash: DISTORTED"), HasSubstr("1.250"))));
  Trace lossy = trace("softmax_warp_forward", 400);
  lossy.quality[std::string(quality::kDropped)] = 1234;
  lossy.quality[std::string(quality::kPeakSlabs)] = 7;
  lossy.gpu_ops.push_back({});
  lossy.gpu_ops[0].attribution = Attribution::kNone;
  arms[0].breakdown = compute_breakdown(lossy);
  EXPECT_THAT(
      breakdown_warnings(arms),
      ElementsAre(AllOf(StartsWith("baseline: LOST DATA (dropped 1,234)"), Not(HasSubstr("slabs"))),
                  StartsWith("attention=flash: DISTORTED"),
                  HasSubstr("only 72.2 % of the device's time"),
                  HasSubstr("1 operations with zero or reversed times")));
}

TEST(BreakdownWarnings, NameATraceWithoutSteps) {
  const std::vector<TracedArm> arms = {{.arm = "baseline", .breakdown = compute_breakdown({})}};
  EXPECT_THAT(breakdown_warnings(arms), ElementsAre("baseline: the trace has no usable step"));
  EXPECT_THAT(breakdown_table(arms).rows, IsEmpty());
  EXPECT_EQ(breakdown_svg(arms), "");
}

TEST(BreakdownSvg, DrawsEveryArmAndNamesWhatItDraws) {
  std::vector<TracedArm> arms = two_arms();
  arms[1].arm = "a<b";
  const std::string svg = breakdown_svg(arms);
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, AllOf(HasSubstr(">baseline<"), HasSubstr(">a&lt;b<"), HasSubstr("50.0 %"),
                         HasSubstr(">750.0 us, distorted<"), HasSubstr(">gemm<"),
                         HasSubstr(">attention<"), Not(HasSubstr(">optimizer<"))));
}

// The report's sections, once a bundle's traces are read.
TEST(TraceSections, AreEmptyWithoutTraces) {
  BundleBuilder builder;
  const Bundle bundle = builder.bundle();
  const Results results = compute_results(bundle);
  const std::vector<TracedArm> arms = two_arms();
  for (const Section& section : all_sections()) {
    if (section.key != "breakdown" && section.key != "waterfall") continue;
    EXPECT_THAT(section.parts({bundle, results}), IsEmpty()) << section.key;
    EXPECT_THAT(section.parts({bundle, results, arms}), Not(IsEmpty())) << section.key;
  }
}

TEST(TraceSections, SayWhatMadeTheDifference) {
  BundleBuilder builder;
  const Bundle bundle = builder.bundle();
  const Results results = compute_results(bundle);
  const std::vector<TracedArm> arms = two_arms();
  std::string text;
  for (const Section& section : all_sections()) {
    if (section.key != "breakdown" && section.key != "waterfall") continue;
    for (const Part& part : section.parts({bundle, results, arms})) text += to_markdown(part);
  }
  EXPECT_THAT(text, HasSubstr("**attention=flash** against baseline: 250.0 us less "
                              "(1.000 ms to 750.0 us a traced step)"));
  EXPECT_THAT(text, HasSubstr("| attention | 400.0 us | 150.0 us | -250.0 us |"));
  EXPECT_THAT(text, HasSubstr("(breakdown.svg)"));
}

}  // namespace
}  // namespace steplens
