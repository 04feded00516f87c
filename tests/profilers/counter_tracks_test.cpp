#include "profilers/trace/counter_tracks.h"

#include <limits>

#include <gtest/gtest.h>

namespace steplens {
namespace {

Trace trace_from(std::int64_t start_unix_ns) {
  Trace trace;
  trace.info["start_unix_ns"] = start_unix_ns;
  return trace;
}

TEST(AddCounterTracks, PutsCurvesOnTheTracesClock) {
  Trace trace = trace_from(1'000'000);
  add_counter_tracks({{"start_unix_ns", 1'000'400},
                      {"time_ns", {100, 200, 300}},
                      {"power_watts", {500.5, nullptr, 501.5}},
                      {"memory_used_bytes", {7, 8, 9}},
                      {"absent_reasons", nlohmann::json::object()}},
                     trace);
  ASSERT_EQ(trace.counter_tracks.size(), 2U);
  EXPECT_EQ(trace.text(trace.counter_tracks[0].name), "power");
  EXPECT_EQ(trace.text(trace.counter_tracks[0].unit), "W");
  EXPECT_EQ(trace.text(trace.counter_tracks[1].name), "memory_used");
  ASSERT_EQ(trace.counter_samples.size(), 5U);  // A reading that failed is no sample.
  EXPECT_EQ(trace.counter_samples[0], (CounterSample{.time_ns = 500, .value = 500.5, .track = 0}));
  EXPECT_EQ(trace.counter_samples[1], (CounterSample{.time_ns = 700, .value = 501.5, .track = 0}));
  EXPECT_EQ(trace.counter_samples[4], (CounterSample{.time_ns = 700, .value = 9, .track = 1}));
}

TEST(AddCounterTracks, SaysWhyACurveIsNotThere) {
  Trace trace = trace_from(0);
  add_counter_tracks({{"start_unix_ns", 0},
                      {"time_ns", nlohmann::json::array()},
                      {"power_watts", nlohmann::json::array()},
                      {"absent_reasons", {{"power_watts", "not supported"}}}},
                     trace);
  ASSERT_EQ(trace.counter_tracks.size(), 1U);
  EXPECT_EQ(trace.text(trace.counter_tracks[0].absent_reason), "not supported");
  EXPECT_TRUE(trace.counter_samples.empty());
}

TEST(AddCounterTracks, AddsNothingWithoutASampler) {
  Trace trace = trace_from(0);
  add_counter_tracks(nlohmann::json::object(), trace);
  add_counter_tracks(nullptr, trace);
  EXPECT_TRUE(trace.counter_tracks.empty());
}

PmSamples two_counters() {
  return {.counters = {{.name = "sm_active", .unit = "ratio"},
                       {.name = "pcie_read", .unit = "ratio", .absent_reason = "does not fit"},
                       {.name = "sm_clock", .unit = "MHz"}},
          .interval_ns = 100,
          .times_ns = {1'000'050, 1'000'150},
          .values = {0.5, 0.1, 0.75, std::numeric_limits<double>::quiet_NaN()},
          .num_overflows = 1,
          .num_missing_samples = 2,
          .num_invalid_samples = 3};
}

TEST(AddPmSamples, PutsEachCounterOnATrackOfItsOwn) {
  Trace trace = trace_from(1'000'000);
  add_pm_samples(two_counters(), trace);
  ASSERT_EQ(trace.counter_tracks.size(), 3U);
  EXPECT_EQ(trace.text(trace.counter_tracks[0].name), "sm_active");
  EXPECT_EQ(trace.text(trace.counter_tracks[0].unit), "ratio");
  EXPECT_EQ(trace.text(trace.counter_tracks[2].unit), "MHz");
  EXPECT_EQ(trace.text(trace.counter_tracks[0].absent_reason), "");
  EXPECT_EQ(trace.text(trace.counter_tracks[1].absent_reason), "does not fit");
  ASSERT_EQ(trace.counter_samples.size(), 3U);  // What could not be evaluated is no sample.
  EXPECT_EQ(trace.counter_samples[0], (CounterSample{.time_ns = 50, .value = 0.5, .track = 0}));
  EXPECT_EQ(trace.counter_samples[1], (CounterSample{.time_ns = 150, .value = 0.75, .track = 0}));
  EXPECT_EQ(trace.counter_samples[2], (CounterSample{.time_ns = 50, .value = 0.1, .track = 2}));
  EXPECT_EQ(trace.info["hardware_counters"].dump(), R"(["sm_active","pcie_read","sm_clock"])");
  EXPECT_FALSE(trace.info.contains("counters_absent_reason"));
  EXPECT_EQ(trace.quality.at("counter_samples"), 2);
  EXPECT_EQ(trace.quality.at("counter_overflows"), 1);
  EXPECT_EQ(trace.quality.at("counter_missing_samples"), 2);
  EXPECT_EQ(trace.quality.at("counter_invalid_samples"), 3);
  EXPECT_TRUE(has_lost_data(trace.quality));
}

TEST(AddPmSamples, SaysWhyThereAreNoSamples) {
  Trace trace = trace_from(0);
  add_pm_samples({.counters = {{.name = "sm_active", .absent_reason = "no permission"}}}, trace);
  EXPECT_EQ(trace.info["counters_absent_reason"], "no permission");
  EXPECT_EQ(trace.text(trace.counter_tracks.at(0).absent_reason), "no permission");
  EXPECT_FALSE(has_lost_data(trace.quality));

  Trace silent = trace_from(0);
  add_pm_samples({.counters = {{.name = "sm_active"}}, .failure = "decode: broken"}, silent);
  EXPECT_EQ(silent.text(silent.counter_tracks.at(0).absent_reason), "decode: broken");
  EXPECT_FALSE(silent.info.contains("counters_absent_reason"));
}

}  // namespace
}  // namespace steplens
