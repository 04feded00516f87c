#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// What a collector took down of a window, before attribution: rows of the trace with times in unix
/// ns, threads by tid instead of by row, no range yet.
struct RawRecords {
  std::vector<GpuOp> gpu_ops;
  std::vector<LaunchShape> launch_shapes;
  struct RawApi {
    Api api;  // Its thread is not set.
    std::uint64_t tid = 0;
    bool is_driver = false;
  };
  std::vector<RawApi> apis;
  std::vector<Sync> syncs;
  struct Overhead {  // What kept the host: the profiler itself, or the driver.
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    StringId name = 0;
    bool is_of_driver = false;
  };
  std::vector<Overhead> overheads;
  std::map<std::uint32_t, std::pair<StringId, StringId>> devices;  // Ordinal to name, UUID.
  std::map<std::string, std::int64_t> quality;
};

/// Where a graph's node was captured: the range open on the capturing thread then, and the one of
/// the thread that ran the step.
struct GraphNodeOrigin {
  std::uint32_t range = kNoRow;
  std::uint32_t step_range = kNoRow;
};
/// By node id, of captured and of instantiated graphs.
using GraphNodeOrigins = std::unordered_map<std::uint64_t, GraphNodeOrigin>;

}  // namespace steplens
