#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/harness/synthetic_trace.h"
#include <fmt/format.h>

#include "harness/trace/trace_writer.h"
#include "viewer/data/trace_model.h"

namespace steplens {

enum class BenchTrace : std::uint8_t {
  kGpuOpsOnly,  // The operations are those of the device.
  kWhole,       // Operations, calls and ranges together.
  kLanes,       // Operations of the device, spread over 32 streams.
};

/// A trace of about so many operations, in the temporary folder; made when first asked for.
inline std::filesystem::path bench_trace_file(BenchTrace kind, std::int64_t num_operations) {
  const char* name = kind == BenchTrace::kGpuOpsOnly ? "gpu"
                     : kind == BenchTrace::kWhole    ? "whole"
                                                     : "lanes";
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("steplens-viewer-bench-{}-{}.slt", name, num_operations);
  if (std::filesystem::exists(path)) return path;
  // 1,100 operations a step; with 1,265 calls and about 190 ranges.
  const std::int64_t num_per_step = kind == BenchTrace::kWhole ? 2555 : 1100;
  Trace trace =
      SyntheticTrace::make(static_cast<int>((num_operations + num_per_step - 1) / num_per_step));
  if (kind != BenchTrace::kWhole) {
    trace.apis.clear();
    trace.range_instances.clear();
    trace.allocs.clear();
    trace.syncs.clear();
  }
  if (kind == BenchTrace::kLanes) {
    for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
      trace.gpu_ops[i].stream_id = static_cast<std::uint32_t>(7 + i % 32);
      // As dense as one stream: 32 run at a time.
      trace.gpu_ops[i].end_ns += 31 * (trace.gpu_ops[i].end_ns - trace.gpu_ops[i].start_ns);
    }
  }
  const auto unfinished = path.string() + ".part";
  write_trace(unfinished, trace);
  std::filesystem::rename(unfinished, path);
  return path;
}

/// Its model; kept, because several benchmarks look at it.
inline std::shared_ptr<const TraceModel> bench_model(BenchTrace kind, std::int64_t num_operations) {
  static std::map<std::pair<BenchTrace, std::int64_t>, std::shared_ptr<const TraceModel>> models;
  auto& model = models[{kind, num_operations}];
  if (model == nullptr) {
    LoadProgress progress;
    model = load_trace_model(bench_trace_file(kind, num_operations), progress);
  }
  return model;
}

}  // namespace steplens
