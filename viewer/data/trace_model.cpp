#include "viewer/data/trace_model.h"

#include <algorithm>

#include "viewer/data/model_builder.h"

namespace steplens {
namespace {

// The slice of a row in a lane row whose slices are in the order of their rows, as they are where
// the recorder sorted them; else by looking at all of them.
std::optional<std::size_t> index_of(const SliceRow& lane_row, std::uint32_t row, bool is_ordered) {
  const std::span<const Slice> slices = lane_row.slices();
  if (is_ordered) {
    const auto it = std::ranges::lower_bound(slices, row, {}, &Slice::row);
    if (it == slices.end() || it->row != row) return std::nullopt;
    return static_cast<std::size_t>(it - slices.begin());
  }
  const auto it = std::ranges::find(slices, row, &Slice::row);
  if (it == slices.end()) return std::nullopt;
  return static_cast<std::size_t>(it - slices.begin());
}

template <class IsMine>
std::optional<SliceRef> find_slice(const TraceModel& model, std::uint32_t row, IsMine is_mine) {
  // A binary search that finds the row is right whatever the order.
  for (const bool is_ordered : {true, false}) {
    for (std::size_t lane = 0; lane < model.lanes.size(); ++lane) {
      if (!is_mine(model.lanes[lane].kind)) continue;
      for (std::size_t i = 0; i < model.lanes[lane].rows.size(); ++i) {
        if (const auto index = index_of(model.lanes[lane].rows[i], row, is_ordered)) {
          return SliceRef{static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(i),
                          static_cast<std::uint32_t>(*index)};
        }
      }
    }
  }
  return std::nullopt;
}

// Ids go up with the calls, nearly: looks near the place where it should be, then everywhere.
std::optional<std::uint32_t> call_of(std::span<const std::uint32_t> ids, std::uint32_t id) {
  constexpr std::ptrdiff_t kNear = 4096;
  const auto guess = std::ranges::lower_bound(ids, id) - ids.begin();
  const auto begin = ids.begin() + std::max<std::ptrdiff_t>(0, guess - kNear);
  const auto end = ids.begin() + std::min(std::ssize(ids), guess + kNear);
  auto it = std::find(begin, end, id);
  if (it == end) {
    it = std::ranges::find(ids, id);
    if (it == ids.end()) return std::nullopt;
  }
  return static_cast<std::uint32_t>(it - ids.begin());
}

}  // namespace

std::size_t Lane::num_slices() const {
  std::size_t count = 0;
  for (const SliceRow& row : rows) count += row.size();
  return count;
}

std::int64_t Lane::busy_ns() const {
  std::int64_t sum_ns = 0;
  for (const SliceRow& row : rows) sum_ns += row.busy_ns();
  return sum_ns;
}

std::int64_t TraceModel::origin_ns(int step_index) const {
  if (num_steps() > 0) {
    return step_bounds_ns[static_cast<std::size_t>(std::clamp(step_index, 0, num_steps() - 1))];
  }
  return start_ns;
}

std::int64_t TraceModel::bytes_of(std::uint32_t op_row) const {
  const auto it =
      std::ranges::lower_bound(op_bytes, op_row, {}, [](const auto& entry) { return entry.first; });
  return it != op_bytes.end() && it->first == op_row ? it->second : 0;
}

std::size_t TraceModel::num_bytes() const {
  std::size_t sum =
      ops.num_bytes() + call_correlation_ids.num_bytes() + call_range_instances.num_bytes() +
      instance_ranges.num_bytes() + graph_node_ids.capacity() * sizeof(graph_node_ids[0]) +
      op_bytes.capacity() * sizeof(op_bytes[0]) + failed_calls.capacity() * sizeof(failed_calls[0]);
  for (const Lane& lane : lanes) {
    for (const SliceRow& row : lane.rows) sum += row.num_bytes();
  }
  return sum;
}

std::optional<SliceRef> find_operation(const TraceModel& model, std::uint32_t row) {
  if (row >= model.ops.size()) return std::nullopt;
  return find_slice(model, row, has_operations);
}

std::optional<SliceRef> find_launch(const TraceModel& model, std::uint32_t op_row) {
  if (op_row >= model.ops.size() || model.ops[op_row].correlation_id == 0) return std::nullopt;
  const auto call = call_of(model.call_correlation_ids.span(), model.ops[op_row].correlation_id);
  if (!call) return std::nullopt;
  return find_slice(model, *call, [](LaneKind kind) { return kind == LaneKind::kCalls; });
}

std::optional<std::uint32_t> find_launched(const TraceModel& model, std::uint32_t call_row) {
  if (call_row >= model.call_correlation_ids.size()) return std::nullopt;
  const std::uint32_t id = model.call_correlation_ids[call_row];
  if (id == 0) return std::nullopt;
  const auto it = std::ranges::find(model.ops.span(), id, &OpDetail::correlation_id);
  if (it == model.ops.span().end()) return std::nullopt;
  return static_cast<std::uint32_t>(it - model.ops.span().begin());
}

std::shared_ptr<const TraceModel> make_trace_model(Trace trace, int num_threads) {
  ModelBuilder builder;
  constexpr std::size_t kChunkRows = 1 << 16;
  const auto extent_of = [](const auto& rows) {
    return TableExtent{rows.size(), (rows.size() + kChunkRows - 1) / kChunkRows};
  };
  builder.begin(trace, extent_of(trace.gpu_ops), extent_of(trace.apis),
                extent_of(trace.range_instances));
  const auto hand_on = [&](auto& rows) {
    for (std::size_t i = 0; i * kChunkRows < rows.size(); ++i) {
      const std::size_t first = i * kChunkRows;
      const auto chunk =
          std::span(std::as_const(rows)).subspan(first, std::min(kChunkRows, rows.size() - first));
      builder.take(chunk, {.first_row = first, .chunk_index = i});
    }
    rows.clear();
    rows.shrink_to_fit();
  };
  hand_on(trace.gpu_ops);
  hand_on(trace.apis);
  hand_on(trace.range_instances);
  return builder.finish(std::move(trace), num_threads);
}

}  // namespace steplens
