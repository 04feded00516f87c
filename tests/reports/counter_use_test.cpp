#include "reports/counters/counter_use.h"

#include <string>

#include "tests/reports/bundle_builder.h"
#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/counters/counter_parts.h"
#include "reports/document.h"
#include "reports/markdown.h"
#include "reports/section.h"

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A trace with hardware counters; samples come in the order of the tracks.
class CountersTrace {
 public:
  CountersTrace& counter(const std::string& name, const std::string& absent_reason = "") {
    Trace& trace = builder.trace();
    trace.info["hardware_counters"].push_back(name);
    trace.counter_tracks.push_back({.name = builder.text(name),
                                    .unit = builder.text("ratio"),
                                    .absent_reason = builder.text(absent_reason)});
    return *this;
  }
  CountersTrace& sample(std::int64_t time_ns, double value) {
    Trace& trace = builder.trace();
    trace.counter_samples.push_back(
        {.time_ns = time_ns,
         .value = value,
         .track = static_cast<std::uint32_t>(trace.counter_tracks.size() - 1)});
    return *this;
  }
  CounterSummary summary() { return summarize_counters(builder.trace()); }

  TraceBuilder builder;
};

// Two steps; the device works from 100 to 900, idle from 300 to 400.
CountersTrace two_steps() {
  CountersTrace trace;
  trace.builder.trace().steps = {{.start_ns = 0, .end_ns = 300}, {.start_ns = 300, .end_ns = 500}};
  trace.builder.kernel("warm-up", 0, 90, -1, "step/forward");
  trace.builder.kernel("a", 100, 300, 0, "step/forward");
  trace.builder.kernel("b", 400, 900, 1, "step/backward");
  trace.builder.kernel("c", 500, 600, 1, "step/optimizer");  // Beside b, on another stream.
  return trace;
}

TEST(SummarizeCounters, CountsTheDevicesTimeOfTheStepsByWhatRan) {
  CountersTrace trace = two_steps();
  trace.counter("sm_active")
      .sample(50, 9)     // Before the steps' first operation.
      .sample(150, 0.5)  // Forward.
      .sample(250, 0.7)
      .sample(350, 0.1)  // Idle.
      .sample(450, 0.9)  // Backward.
      .sample(550, 0.4)  // Optimizer: it began last.
      .sample(650, 0.8)  // Backward again.
      .sample(950, 9);   // Behind.
  const CounterSummary summary = trace.summary();
  ASSERT_EQ(summary.counters.size(), 1U);
  const CounterUse& use = summary.counters[0];
  EXPECT_EQ(use.name, "sm_active");
  EXPECT_EQ(use.absent_reason, "");
  EXPECT_EQ(use.num_samples, 6);
  EXPECT_NEAR(use.mean.value(), (0.5 + 0.7 + 0.1 + 0.9 + 0.4 + 0.8) / 6, 1e-12);
  // Sorted: .1 .4 .5 .7 .8 .9; position 0.95 * 5 = 4.75, so 0.8 + 0.75 * 0.1.
  EXPECT_NEAR(use.p95.value(), 0.875, 1e-12);
  const auto of_phase = [&](Phase phase) {
    return use.mean_by_phase.at(static_cast<std::size_t>(phase));
  };
  EXPECT_NEAR(of_phase(Phase::kForward).value(), 0.6, 1e-12);
  EXPECT_NEAR(of_phase(Phase::kBackward).value(), 0.85, 1e-12);
  EXPECT_NEAR(of_phase(Phase::kOptimizer).value(), 0.4, 1e-12);
  EXPECT_FALSE(of_phase(Phase::kClip).has_value());
  EXPECT_NEAR(use.mean_idle.value(), 0.1, 1e-12);
}

TEST(SummarizeCounters, KeepsTheReasonOfWhatIsAbsent) {
  CountersTrace trace = two_steps();
  trace.counter("sm_active").sample(200, 0.5).counter("pcie_read", "does not fit");
  trace.counter("dram_read").sample(5'000, 0.5);
  const CounterSummary summary = trace.summary();
  ASSERT_EQ(summary.counters.size(), 3U);
  EXPECT_TRUE(summary.has_numbers());
  EXPECT_EQ(summary.counters[1].absent_reason, "does not fit");
  EXPECT_FALSE(summary.counters[1].mean.has_value());
  EXPECT_EQ(summary.counters[2].absent_reason, "no sample lies in the traced steps");
  const nlohmann::json json = to_json(summary);
  EXPECT_EQ(json.at(0).at("mean"), 0.5);
  EXPECT_EQ(json.at(0).at("mean_by_phase").at("forward"), 0.5);
  EXPECT_TRUE(json.at(1).at("p95").is_null());
}

TEST(SummarizeCounters, FallsBackToTheHostsStepsWithoutOperations) {
  CountersTrace trace;
  trace.builder.trace().steps = {{.start_ns = 0, .end_ns = 300}};
  trace.counter("sm_active").sample(100, 0.25).sample(400, 1);
  const CounterUse use = trace.summary().counters.at(0);
  EXPECT_EQ(use.mean, 0.25);
  EXPECT_EQ(use.mean_idle, 0.25);
}

TEST(SummarizeCounters, IsEmptyForATraceOfAnotherKind) {
  TraceBuilder builder;
  builder.trace().counter_tracks.push_back({.name = builder.text("power")});
  EXPECT_THAT(summarize_counters(builder.trace()).counters, IsEmpty());
}

CounterArm arm_of(const std::string& name, CountersTrace trace) {
  return {.arm = name,
          .summary = trace.summary(),
          .step_ns = 102'000'000,
          .throughput_step_ns = 100'000'000};
}

TEST(CounterParts, ShowMeansAndPercentilesAnArmEach) {
  CountersTrace first = two_steps();
  first.counter("sm_active").sample(150, 0.5).sample(250, 0.5).counter("pcie_read", "no room");
  CountersTrace second = two_steps();
  second.counter("sm_active", "refused").counter("pcie_read", "refused");
  second.builder.trace().quality["counter_overflows"] = 2;
  const std::vector<CounterArm> arms = {arm_of("baseline", first), arm_of("graph=on", second)};
  const Table table = counter_table(arms);
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_THAT(table.rows[0], ElementsAre("baseline", "50.0 % (p95 50.0 %)", "1.020"));
  const Table phases = counter_phase_table(arms);
  ASSERT_EQ(phases.rows.size(), 1U);
  EXPECT_THAT(phases.rows[0], ElementsAre("baseline", "forward", "50.0 %"));
  EXPECT_THAT(
      counter_notes(arms),
      ElementsAre("baseline: pcie read not available: no room", "graph=on: not available: refused",
                  HasSubstr("graph=on: samples were lost: the GPU's buffer overflowed 2")));
}

TEST(CounterParts, AreASectionOfTheReport) {
  const Bundle bundle = eight_rounds().bundle();
  const Results results = compute_results(bundle);
  CountersTrace trace = two_steps();
  trace.counter("tensor_active").sample(150, 0.28);
  const std::vector<CounterArm> arms = {arm_of("baseline", trace)};
  const std::string report =
      report_markdown(make_document({.bundle = bundle, .results = results, .counter_arms = arms}));
  EXPECT_THAT(report, HasSubstr("## How busy the hardware was\n"));
  EXPECT_THAT(report, HasSubstr("28.0 % (p95 28.0 %)"));
  EXPECT_THAT(report_markdown(make_document({.bundle = bundle, .results = results})),
              testing::Not(HasSubstr("How busy the hardware was")));
}

}  // namespace
}  // namespace steplens
