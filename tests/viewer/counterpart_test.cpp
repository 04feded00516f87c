#include "viewer/data/counterpart.h"

#include <string>

#include "tests/reports/trace_builder.h"
#include <gtest/gtest.h>

namespace steplens {
namespace {

// Two steps of three gemms each; those of an arm take `scale` times as long.
TraceBuilder arm(std::int64_t scale) {
  TraceBuilder builder;
  std::int64_t time_ns = 0;
  for (int step = 0; step < 2; ++step) {
    const std::int64_t start_ns = time_ns;
    for (int i = 0; i < 3; ++i) {
      builder.kernel("sgemm", time_ns, time_ns + scale * (100 + i), step,
                     "step/forward/block " + std::to_string(i) + "/mlp");
      time_ns += scale * 200;
    }
    builder.trace().steps.push_back({.start_ns = start_ns, .end_ns = time_ns});
    builder.open("step", start_ns, time_ns);
  }
  return builder;
}

std::uint32_t lane_of(const TraceModel& model, LaneKind kind) {
  for (std::uint32_t lane = 0; lane < model.lanes.size(); ++lane) {
    if (model.lanes[lane].kind == kind) return lane;
  }
  return kNoRow;
}

TEST(Counterpart, IsTheSameOccurrenceInTheSameStep) {
  const auto a = make_trace_model(arm(1).trace());
  const auto b = make_trace_model(arm(3).trace());
  // The second gemm of the second step.
  const SliceRef ref{lane_of(*a, LaneKind::kStream), 0, 4};
  const auto found = find_counterpart(*a, ref, *b);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(b->slice(*found).duration_ns(), 303);
  EXPECT_EQ(b->slice(*found).start_ns, 3 * 800);
}

TEST(Counterpart, IsFoundForModulesStepsAndRanges) {
  const auto a = make_trace_model(arm(1).trace());
  const auto b = make_trace_model(arm(2).trace());
  const auto found_ns = [&](LaneKind kind, std::uint32_t index) {
    const auto found = find_counterpart(*a, {lane_of(*a, kind), 0, index}, *b);
    return found ? b->slice(*found).start_ns : -1;
  };
  EXPECT_EQ(found_ns(LaneKind::kModules, 5), 2000);  // block 2/mlp of step 1.
  EXPECT_EQ(found_ns(LaneKind::kSteps, 1), 1200);
  EXPECT_EQ(found_ns(LaneKind::kRanges, 1), 1200);
}

TEST(Counterpart, IsNothingWhereTheOtherArmLacksIt) {
  const auto a = make_trace_model(arm(1).trace());
  TraceBuilder other;
  other.trace().steps = {{.start_ns = 0, .end_ns = 100}};
  other.kernel("flash", 0, 50, 0);
  const auto b = make_trace_model(other.trace());
  const std::uint32_t stream = lane_of(*a, LaneKind::kStream);
  EXPECT_FALSE(find_counterpart(*a, {stream, 0, 0}, *b).has_value());
  EXPECT_FALSE(find_counterpart(*b, {lane_of(*b, LaneKind::kStream), 0, 0}, *a).has_value());
}

}  // namespace
}  // namespace steplens
