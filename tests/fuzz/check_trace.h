#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "harness/trace/trace.h"

namespace steplens {

/// Ends the process, which a fuzzer takes for a finding.
inline void require(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// What every reader of traces promises to those who use its rows: indices name rows that are
/// there.
inline void check_references(const Trace& trace) {
  const auto is_row = [](std::uint32_t row, std::size_t size) {
    return row == kNoRow || row < size;
  };
  for (const GpuOp& op : trace.gpu_ops) {
    require(op.name < trace.strings.size() && is_row(op.range, trace.ranges.size()) &&
                is_row(op.launch_shape, trace.launch_shapes.size()) && op.step_index >= -1 &&
                op.step_index < static_cast<std::int64_t>(trace.steps.size()),
            "gpu_op");
    if (op.kind == GpuOpKind::kOperator) {
      require(is_row(op.stream_id, trace.threads.size()), "stream_id");
    }
    require(name_of(op.phase).size() + name_of(op.kind).size() > 0, "enum");
  }
  for (const Api& api : trace.apis) {
    require(api.name < trace.strings.size() && is_row(api.thread, trace.threads.size()) &&
                is_row(api.range_instance, trace.range_instances.size()),
            "api");
  }
  for (const RangeInstance& instance : trace.range_instances) {
    require(is_row(instance.range, trace.ranges.size()), "range_instance");
  }
}

}  // namespace steplens
