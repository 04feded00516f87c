#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/trace/trace.h"
#include "harness/trace/trace_reader.h"

namespace steplens {

inline std::span<const std::byte> bytes_of(std::string_view file) {
  return std::as_bytes(std::span(file));
}

inline Trace read_bytes(std::string_view file) { return read_trace(bytes_of(file), "x.slt"); }

/// What read_trace says; empty if it takes the file.
inline std::string fault_of(std::string_view file) {
  try {
    read_bytes(file);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

/// A trace that has every field of every table at its limits and away from its default.
inline Trace extreme_trace() {
  constexpr auto kMin64 = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax64 = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMaxU64 = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kMin32 = std::numeric_limits<std::int32_t>::min();
  constexpr auto kMax32 = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMaxU32 = std::numeric_limits<std::uint32_t>::max();
  Trace trace;
  trace.info = {{"run_kind", "trace"},
                {"largest", kMaxU64},
                {"smallest", kMin64},
                {"tenth", 0.1},
                {"nested", {{"list", {1, "two", nullptr, true}}}}};
  trace.strings = {"",
                   "a",
                   "",
                   std::string("\0\x01\x02\n\"'\\\x7f", 8),
                   "\xff\xfe not UTF-8 \xc3",
                   std::string(70000, 'z')};
  trace.gpu_ops = {
      {},
      {.start_ns = kMin64,
       .end_ns = kMax64,
       .bytes = kMax64,
       .graph_node_id = kMaxU64,
       .name = 5,
       .correlation_id = kMaxU32,
       .stream_id = kMaxU32,
       .launch_shape = 1,
       .range = 2,
       .step_index = 1,
       .micro_step_index = kMax32,
       .kind = GpuOpKind::kGraph,
       .copy_kind = CopyKind::kOther,
       .source_memory = MemoryKind::kArray,
       .target_memory = MemoryKind::kArray,
       .phase = Phase::kOther,
       .attribution = Attribution::kGraphNode,
       .device = 255},
      {.start_ns = kMax64,
       .end_ns = kMin64,
       .bytes = kMin64,
       .launch_shape = 0,
       .range = 0,
       .step_index = 0,
       .micro_step_index = kMin32,
       .device = 1},
      {.start_ns = -1, .end_ns = 0, .stream_id = 1, .kind = GpuOpKind::kOperator},
  };
  trace.launch_shapes = {{}, {kMaxU32, 2, 3, kMaxU32, 5, 6, kMaxU32, 8, kMaxU32}};
  trace.apis = {{},
                {.start_ns = kMin64,
                 .end_ns = kMax64,
                 .name = 3,
                 .correlation_id = kMaxU32,
                 .thread = 1,
                 .range_instance = 2,
                 .return_value = kMin32},
                {.return_value = kMax32}};
  trace.ranges = {{}, {.name = 1, .domain = 4, .parent = 0}, {.name = 2, .parent = 1}};
  trace.range_instances = {
      {},
      {.start_ns = kMax64, .end_ns = kMin64, .range = 2, .thread = 1, .parent = 0},
      {.start_ns = 3, .end_ns = 2, .parent = 1}};
  trace.syncs = {
      {}, {.start_ns = kMin64, .end_ns = -1, .name = 1, .correlation_id = kMaxU32, .stream_id = 9}};
  trace.allocs = {{},
                  {.time_ns = kMin64,
                   .address = kMaxU64,
                   .bytes = kMax64,
                   .range = 2,
                   .step_index = 1,
                   .action = AllocAction::kOutOfMemory,
                   .owner = MemoryOwner::kData,
                   .phase = Phase::kOther,
                   .device = 255}};
  trace.counter_tracks = {{}, {.name = 1, .unit = 3, .absent_reason = 4}};
  trace.counter_samples = {{},
                           {.time_ns = kMax64, .value = -0.0, .track = 1},
                           {.value = std::numeric_limits<double>::quiet_NaN(), .track = 0},
                           {.value = -std::numeric_limits<double>::infinity()},
                           {.value = std::numeric_limits<double>::denorm_min()},
                           {.value = std::numeric_limits<double>::max()}};
  trace.steps = {{}, {.start_ns = kMin64, .end_ns = kMax64, .first_step_number = kMin64}};
  trace.threads = {{}, {.tid = kMaxU64, .name = 4}};
  trace.devices.resize(256);
  trace.devices[255] = {.name = 1, .uuid = 3};
  trace.quality = {{"", kMin64}, {"dropped", kMax64}, {std::string("a\0b", 3), 1}};
  return trace;
}

inline void expect_same(const Trace& read, const Trace& written) {
  EXPECT_EQ(read.info, written.info);
  EXPECT_EQ(read.strings, written.strings);
  EXPECT_TRUE(read.gpu_ops == written.gpu_ops);
  EXPECT_TRUE(read.launch_shapes == written.launch_shapes);
  EXPECT_TRUE(read.apis == written.apis);
  EXPECT_TRUE(read.ranges == written.ranges);
  EXPECT_TRUE(read.range_instances == written.range_instances);
  EXPECT_TRUE(read.syncs == written.syncs);
  EXPECT_TRUE(read.allocs == written.allocs);
  EXPECT_TRUE(read.counter_tracks == written.counter_tracks);
  EXPECT_TRUE(read.steps == written.steps);
  EXPECT_TRUE(read.threads == written.threads);
  EXPECT_TRUE(read.devices == written.devices);
  EXPECT_EQ(read.quality, written.quality);
  // Bits, as NaN is no equal of itself.
  ASSERT_EQ(read.counter_samples.size(), written.counter_samples.size());
  for (std::size_t i = 0; i < read.counter_samples.size(); ++i) {
    EXPECT_EQ(read.counter_samples[i].time_ns, written.counter_samples[i].time_ns);
    EXPECT_EQ(read.counter_samples[i].track, written.counter_samples[i].track);
    EXPECT_EQ(std::memcmp(&read.counter_samples[i].value, &written.counter_samples[i].value,
                          sizeof(double)),
              0);
  }
}

}  // namespace steplens
