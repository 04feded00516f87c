#include "viewer/data/slice_facts.h"

#include <algorithm>

#include <fmt/format.h>

#include "reports/format.h"
#include "viewer/data/row_view.h"

namespace steplens {
namespace {

std::string duration(std::int64_t duration_ns) {
  return format_duration_ns(static_cast<double>(duration_ns));
}

std::string bytes(std::int64_t count) { return format_bytes(static_cast<double>(count)); }

std::string extent(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  if (z > 1) return fmt::format("{} x {} x {}", x, y, z);
  return y > 1 ? fmt::format("{} x {}", x, y) : fmt::format("{}", x);
}

void add_shape(const LaunchShape& shape, SliceFacts& facts) {
  const std::uint64_t num_threads = std::uint64_t{shape.block_x} * shape.block_y * shape.block_z;
  facts.add("Grid", extent(shape.grid_x, shape.grid_y, shape.grid_z));
  facts.add("Block",
            num_threads == shape.block_x
                ? fmt::format("{} threads", num_threads)
                : fmt::format("{} = {} threads",
                              extent(shape.block_x, shape.block_y, shape.block_z), num_threads));
  facts.add("Registers", fmt::format("{} a thread", shape.registers_per_thread));
  std::string shared;
  if (shape.static_shared_bytes > 0) shared = bytes(shape.static_shared_bytes) + " static";
  if (shape.dynamic_shared_bytes > 0) {
    shared += (shared.empty() ? "" : " + ") + bytes(shape.dynamic_shared_bytes) + " dynamic";
  }
  facts.add("Shared memory", shared.empty() ? "none" : shared);
}

void add_launch(const TraceModel& model, const Slice& slice, SliceFacts& facts) {
  const auto ref = find_launch(model, slice.row);
  if (!ref) return;
  const Slice& call = model.slice(*ref);
  facts.add("Launched by",
            fmt::format("{}, {}", model.names.display(call.name), duration(call.duration_ns())));
  const std::int64_t delay_ns = slice.start_ns - call.end_ns;
  facts.add("Launch delay", delay_ns >= 0
                                ? fmt::format("{} after the call", duration(delay_ns))
                                : fmt::format("{} before the call ended", duration(-delay_ns)));
}

void add_operation(const TraceModel& model, const Slice& slice, SliceFacts& facts) {
  const OpDetail& op = model.ops[slice.row];
  const bool is_kernel = op.kind == GpuOpKind::kKernel || op.kind == GpuOpKind::kOperator;
  if (is_kernel) {
    facts.add("Category", std::string(name_of(model.names.category(slice.name))));
  }
  std::string phase(name_of(op.phase));
  if (!phase.empty() && op.micro_step_index >= 0) {
    phase += fmt::format(", micro-step {}", op.micro_step_index);
  }
  facts.add("Phase", phase);
  if (op.range < model.range_paths.size()) facts.add("Range", model.range_paths[op.range]);
  if (op.attribution == Attribution::kGraphNode) facts.add("Attributed by", "its graph node");
  add_launch(model, slice, facts);
  if (op.launch_shape < model.tables.launch_shapes.size()) {
    add_shape(model.tables.launch_shapes[op.launch_shape], facts);
  }
  if (const std::int64_t num_bytes = model.bytes_of(slice.row); num_bytes > 0) {
    const auto duration_s = static_cast<double>(slice.duration_ns()) / 1e9;
    facts.add("Size", duration_s > 0
                          ? fmt::format("{}, {}/s", bytes(num_bytes),
                                        format_bytes(static_cast<double>(num_bytes) / duration_s))
                          : bytes(num_bytes));
  }
  if (!model.graph_node_ids.empty() && model.graph_node_ids[slice.row] != 0) {
    facts.add("Graph node", fmt::format("{}", model.graph_node_ids[slice.row]));
  }
}

void add_call(const TraceModel& model, const Slice& slice, SliceFacts& facts) {
  const std::uint32_t instance = model.call_range_instances[slice.row];
  if (instance < model.instance_ranges.size() &&
      model.instance_ranges[instance] < model.range_paths.size()) {
    facts.add("Range", model.range_paths[model.instance_ranges[instance]]);
  }
  const auto failed = std::ranges::lower_bound(model.failed_calls, slice.row, {},
                                               [](const auto& entry) { return entry.first; });
  if (failed != model.failed_calls.end() && failed->first == slice.row) {
    facts.add("Returned", fmt::format("{} (an error)", failed->second));
  }
}

}  // namespace

std::string moment_text(const TraceModel& model, std::int64_t time_ns) {
  const auto& bounds = model.step_bounds_ns;
  const auto it = std::ranges::upper_bound(bounds, time_ns);
  if (it == bounds.begin() || it == bounds.end()) {
    const std::int64_t since_ns = time_ns - model.start_ns;
    return fmt::format("{} after the trace's start", duration(since_ns));
  }
  const auto step = it - bounds.begin() - 1;
  return fmt::format("step {} + {}", step, duration(time_ns - *(it - 1)));
}

std::string_view label_of(const TraceModel& model, const Slice& slice) {
  return model.names.display(slice.name);
}

SliceFacts facts_of(const TraceModel& model, const SliceRef& ref) {
  const Slice& slice = model.slice(ref);
  const Lane& lane = model.lanes[ref.lane];
  SliceFacts facts{.title = model.names.display(slice.name)};
  if (lane.kind == LaneKind::kSteps) {
    facts.title = fmt::format("step {}", slice.row);
    const Step& step = model.tables.steps[slice.row];
    facts.add("Number in the run", fmt::format("{}", step.first_step_number + 0));
    facts.add("On the host", duration(step.end_ns - step.start_ns));
  }
  facts.lines.insert(facts.lines.begin(), {"Duration", duration(slice.duration_ns())});
  facts.add("Starts", moment_text(model, slice.start_ns));
  switch (lane.kind) {
    case LaneKind::kStream:
    case LaneKind::kGraph:
    case LaneKind::kOperators: add_operation(model, slice, facts); break;
    case LaneKind::kCalls: add_call(model, slice, facts); break;
    case LaneKind::kRanges:
      if (const std::uint32_t range = model.instance_ranges[slice.row];
          range < model.range_paths.size()) {
        facts.add("Path", model.range_paths[range]);
      }
      break;
    default: break;
  }
  return facts;
}

SliceFacts facts_of_stretch(const TraceModel& model, std::uint32_t lane, std::uint32_t lane_row,
                            std::int64_t start_ns, std::int64_t end_ns) {
  const SliceRow& row = model.lanes[lane].rows[lane_row];
  const SliceSpan span = slices_within(row, start_ns, end_ns);
  SliceFacts facts;
  if (span.begin == span.end) return facts;
  const auto count = static_cast<std::int64_t>(span.end - span.begin);
  facts.title = fmt::format("{} {}", format_count(count), count == 1 ? "slice" : "slices");
  const std::int64_t busy_ns = row.busy_ns(start_ns, end_ns);
  facts.add("Busy", fmt::format("{} of {} ({})", duration(busy_ns), duration(end_ns - start_ns),
                                format_percent(static_cast<double>(busy_ns) /
                                               static_cast<double>(end_ns - start_ns))));
  const Slice& longest = row.slices()[row.longest_of(span.begin, span.end)];
  facts.add("Longest", fmt::format("{}, {}", duration(longest.duration_ns()),
                                   model.names.display(longest.name)));
  facts.add("From", moment_text(model, start_ns));
  return facts;
}

}  // namespace steplens
