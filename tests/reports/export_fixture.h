#pragma once

#include "tests/reports/bundle_builder.h"
#include "tests/reports/trace_builder.h"

namespace steplens {

/// Step 12: within forward, a call launches mm_kernel, which runs 1000..1500 on stream 7; another
/// launches add_kernel, 1500..1750, outside of forward. A copy on stream 20 and a wait besides.
inline Trace two_launches() {
  TraceBuilder builder;
  Trace& trace = builder.trace();
  trace.info = {{"run_kind", "trace"}, {"start_unix_ns", 1'700'000'000'000'000'000}, {"pid", 4711}};
  trace.launch_shapes.push_back({.grid_x = 4,
                                 .grid_y = 2,
                                 .grid_z = 1,
                                 .block_x = 128,
                                 .block_y = 1,
                                 .block_z = 1,
                                 .registers_per_thread = 32,
                                 .static_shared_bytes = 1024,
                                 .dynamic_shared_bytes = 2048});
  builder.open("step", 100, 900);
  builder.open("step/forward", 150, 500);
  trace.range_instances[1].parent = 0;
  builder.kernel("mm_kernel", 1'000, 1'500, 0, "step/forward").launch_shape = 0;
  builder.launched(200, 300).range_instance = 1;
  GpuOp& add = builder.kernel("add_kernel", 1'500, 1'750, 0);
  add.graph_node_id = 77;
  add.micro_step_index = 1;
  builder.launched(600, 700).range_instance = 0;
  GpuOp& copy = builder.copy(CopyKind::kHostToDevice, 1'600, 1'700, 0);
  copy.bytes = 4096;
  copy.source_memory = MemoryKind::kPinned;
  copy.target_memory = MemoryKind::kDevice;
  trace.syncs.push_back(
      {.start_ns = 700, .end_ns = 1'800, .name = builder.text("stream"), .stream_id = 7});
  trace.steps.push_back({.start_ns = 100, .end_ns = 900, .first_step_number = 12});
  return trace;
}

}  // namespace steplens
