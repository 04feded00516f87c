#include "profilers/trace/counter_tracks.h"

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

}  // namespace
}  // namespace steplens
