#include "viewer/data/model_builder.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "harness/trace/merge_ranks.h"
#include "harness/trace/trace_format.h"
#include "reports/breakdown/kernel_patterns.h"
#include "reports/breakdown/modules.h"
#include "reports/breakdown/op_tracks.h"
#include "reports/export/op_names.h"
#include "reports/format.h"
#include "viewer/data/banners.h"
#include "viewer/data/memory_series.h"
#include "viewer/data/phase_lanes.h"

namespace steplens {
namespace {

// Operators of a CPU arm and streams of a device do not share a lane.
constexpr std::uint64_t kOperatorBit = std::uint64_t{1} << 63;

// Of lanes that the nodes of graphs share.
constexpr std::uint64_t kGraphBit = std::uint64_t{1} << 62;

LaneKind lane_kind_of(LaneKind kind, std::uint64_t lane_key) {
  if (kind != LaneKind::kStream) return kind;
  if ((lane_key & kOperatorBit) != 0) return LaneKind::kOperators;
  return (lane_key & kGraphBit) != 0 ? LaneKind::kGraph : LaneKind::kStream;
}

// Timestamps of zero or of the clock's zero are no times.
std::int64_t end_of(std::int64_t start_ns, std::int64_t end_ns) {
  return std::max(start_ns, end_ns);
}

bool opens_step(const GpuOp& op) {
  const bool is_copy = op.kind == GpuOpKind::kCopy || op.kind == GpuOpKind::kSet;
  return op.step_index >= 0 && !(is_copy && op.phase == Phase::kData);
}

OpDetail detail_of(const GpuOp& op) {
  OpDetail detail{.correlation_id = op.correlation_id,
                  .launch_shape = op.launch_shape,
                  .range = op.range,
                  .step_index = op.step_index};
  detail.micro_step_index = static_cast<std::int16_t>(
      std::clamp<std::int32_t>(op.micro_step_index, -1, std::numeric_limits<std::int16_t>::max()));
  detail.kind = op.kind;
  detail.copy_kind = op.copy_kind;
  detail.phase = op.phase;
  detail.attribution = op.attribution;
  return detail;
}

int rank_of_lane(const Trace& tables, const Lane& lane) {
  switch (lane.kind) {
    case LaneKind::kSteps:
    case LaneKind::kPhases:
    case LaneKind::kModules: return -1;  // Of all: they come first.
    case LaneKind::kStream:
    case LaneKind::kGraph:
    case LaneKind::kOperators:
    case LaneKind::kSyncs: return rank_of_device(tables, lane.device);
    case LaneKind::kRanges:
    case LaneKind::kCalls: return rank_of_thread(tables, lane.id);
  }
  return 0;
}

// One group of lanes a rank, in the order of the ranks: first what ran on the devices, then what
// the hosts did, which is folded away until it is asked for.
void group_by_rank(TraceModel& model) {
  if (num_ranks(model.tables) == 1) return;
  std::ranges::stable_sort(model.lanes, {}, [&](const Lane& lane) {
    return std::pair(is_of_host(lane.kind), rank_of_lane(model.tables, lane));
  });
}

}  // namespace

std::vector<Slice>& ModelBuilder::Chunk::part(std::uint64_t lane_key) {
  if (last_part < parts.size() && parts[last_part].lane_key == lane_key) {
    return parts[last_part].slices;
  }
  last_part =
      static_cast<std::size_t>(std::ranges::find(parts, lane_key, &Part::lane_key) - parts.begin());
  if (last_part == parts.size()) parts.push_back({.lane_key = lane_key});
  return parts[last_part].slices;
}

void ModelBuilder::Chunk::see(std::int64_t slice_start_ns, std::int64_t slice_end_ns) {
  if (!has_times) {
    start_ns = slice_start_ns;
    end_ns = slice_end_ns;
    has_times = true;
  }
  start_ns = std::min(start_ns, slice_start_ns);
  end_ns = std::max(end_ns, slice_end_ns);
}

ModelBuilder::ModelBuilder(LoadProgress* progress)
    : progress_(progress),
      model_(std::make_shared<TraceModel>()) {}

void ModelBuilder::begin(const Trace& trace, TableExtent gpu_ops, TableExtent apis,
                         TableExtent range_instances) {
  if (progress_ != nullptr) {
    progress_->num_total_rows =
        gpu_ops.num_rows + apis.num_rows + range_instances.num_rows + progress_->read.num_done_rows;
  }
  model_->names = NameTable(trace);
  is_operation_name_.resize(model_->names.size());
  communication_names_.resize(model_->names.size());
  model_->ops = PodVector<OpDetail>(gpu_ops.num_rows);
  model_->call_correlation_ids = PodVector<std::uint32_t>(apis.num_rows);
  model_->call_range_instances = PodVector<std::uint32_t>(apis.num_rows);
  model_->instance_ranges = PodVector<std::uint32_t>(range_instances.num_rows);
  model_->num_operations = static_cast<std::int64_t>(gpu_ops.num_rows);
  op_chunks_.resize(gpu_ops.num_chunks);
  api_chunks_.resize(apis.num_chunks);
  instance_chunks_.resize(range_instances.num_chunks);
}

void ModelBuilder::take(std::span<const GpuOp> rows, RowPlace place) {
  Chunk& chunk = op_chunks_[place.chunk_index];
  chunk.num_rows += rows.size();
  auto row = static_cast<std::uint32_t>(place.first_row);
  for (const GpuOp& op : rows) {
    const NameId name = model_->names.name_of(op);
    // Threads write the same value; a read is cheaper than a write that others see.
    std::atomic_ref<std::uint8_t> is_used(is_operation_name_[name]);
    if (is_used.load(std::memory_order_relaxed) == 0) is_used.store(1, std::memory_order_relaxed);
    const std::int64_t end_ns = end_of(op.start_ns, op.end_ns);
    chunk.part(lane_key_of(op, name)).push_back({op.start_ns, end_ns, name, row});
    chunk.see(op.start_ns, end_ns);
    model_->ops[row] = detail_of(op);
    if (op.bytes != 0) chunk.values.emplace_back(row, op.bytes);
    if (op.graph_node_id != 0) {
      if (!has_graph_nodes_) {
        const std::scoped_lock lock(mutex_);
        if (model_->graph_node_ids.empty()) model_->graph_node_ids.resize(model_->ops.size());
        has_graph_nodes_ = true;
      }
      model_->graph_node_ids[row] = op.graph_node_id;
    }
    if (opens_step(op)) {
      auto& starts = chunk.step_starts;
      if (starts.empty() || starts.back().first != op.step_index) {
        starts.emplace_back(op.step_index, op.start_ns);
      } else {
        starts.back().second = std::min(starts.back().second, op.start_ns);
      }
    }
    ++row;
  }
}

void ModelBuilder::take(std::span<const Api> rows, RowPlace place) {
  Chunk& chunk = api_chunks_[place.chunk_index];
  chunk.num_rows += rows.size();
  auto row = static_cast<std::uint32_t>(place.first_row);
  for (const Api& call : rows) {
    const std::int64_t end_ns = end_of(call.start_ns, call.end_ns);
    chunk.part(call.thread).push_back({call.start_ns, end_ns, call.name, row});
    chunk.see(call.start_ns, end_ns);
    model_->call_correlation_ids[row] = call.correlation_id;
    model_->call_range_instances[row] = call.range_instance;
    if (call.return_value != 0) chunk.values.emplace_back(row, call.return_value);
    ++row;
  }
}

void ModelBuilder::take(std::span<const RangeInstance> rows, RowPlace place) {
  Chunk& chunk = instance_chunks_[place.chunk_index];
  chunk.num_rows += rows.size();
  auto row = static_cast<std::uint32_t>(place.first_row);
  // `tables` are only handed over at the end: names of ranges come from the copy that begin() saw.
  for (const RangeInstance& instance : rows) {
    const std::int64_t end_ns = end_of(instance.start_ns, instance.end_ns);
    chunk.part(instance.thread).push_back({instance.start_ns, end_ns, instance.range, row});
    chunk.see(instance.start_ns, end_ns);
    model_->instance_ranges[row] = instance.range;
    ++row;
  }
}

std::uint64_t ModelBuilder::lane_key_of(const GpuOp& op, NameId name) {
  const std::uint64_t device = std::uint64_t{op.device} << 32;
  if (op.kind == GpuOpKind::kOperator) return device | op.stream_id | kOperatorBit;
  switch (track_of(op, [&] { return is_communication(name); })) {
    case OpTrack::kStream: break;
    case OpTrack::kGraph: return device | kGraphBit | kGraphComputation;
    case OpTrack::kCommunication: return device | kGraphBit | kGraphCommunication;
  }
  return device | op.stream_id;
}

bool ModelBuilder::is_communication(NameId name) {
  enum : std::uint8_t { kUnknown, kNo, kYes };
  const std::atomic_ref<std::uint8_t> known(communication_names_[name]);  // Threads agree.
  std::uint8_t answer = known.load(std::memory_order_relaxed);
  if (answer == kUnknown) {
    answer = category_of(model_->names.raw(name)) == KernelCategory::kCommunication ? kYes : kNo;
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == kYes;
}

void ModelBuilder::plan_lanes(const Chunks& chunks, LaneKind kind) {
  std::vector<std::uint64_t> keys;
  for (const Chunk& chunk : chunks) {
    for (const Part& part : chunk.parts) keys.push_back(part.lane_key);
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const std::uint64_t key : keys) add_lane(kind, key);
}

void ModelBuilder::add_lane(LaneKind kind, std::uint64_t lane_key) {
  Lane& lane = model_->lanes.emplace_back();
  lane.kind = lane_kind_of(kind, lane_key);
  lane.device = static_cast<std::uint32_t>((lane_key & ~(kOperatorBit | kGraphBit)) >> 32);
  lane.id = static_cast<std::uint32_t>(lane_key);
  lane_keys_.push_back(lane_key);
}

void ModelBuilder::make_lane_rows(Lane& lane, std::uint64_t lane_key, Chunks& chunks) {
  std::vector<std::vector<Slice>*> parts;
  std::size_t num_slices = 0;
  for (Chunk& chunk : chunks) {
    for (Part& part : chunk.parts) {
      if (part.lane_key != lane_key) continue;
      parts.push_back(&part.slices);
      num_slices += part.slices.size();
    }
  }
  PodVector<Slice> slices(num_slices);
  Slice* to = slices.begin();
  for (std::vector<Slice>* part : parts) {
    to = std::ranges::copy(*part, to).out;
    *part = {};
  }
  if (lane.kind == LaneKind::kRanges) {
    for (Slice& slice : slices) {
      slice.name =
          slice.name < model_->tables.ranges.size() ? model_->tables.ranges[slice.name].name : 0;
    }
  }
  const NameTable& names = model_->names;
  const auto tones = has_operations(lane.kind)        ? names.kernel_tones()
                     : lane.kind == LaneKind::kRanges ? names.range_tones()
                                                      : names.api_tones();
  lane.rows = make_rows(std::move(slices), tones);
}

void ModelBuilder::make_all_rows(int num_threads) {
  std::atomic<std::size_t> next_lane = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next_lane++) < lane_keys_.size();) {
      Lane& lane = model_->lanes[i];
      make_lane_rows(lane, lane_keys_[i],
                     has_operations(lane.kind)        ? op_chunks_
                     : lane.kind == LaneKind::kRanges ? instance_chunks_
                                                      : api_chunks_);
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
  work();
}

void ModelBuilder::fill_missing_rows() {
  // Only of a damaged file rows are missing.
  const auto fill = [](const Chunks& chunks, auto& values, const auto& with) {
    std::size_t num_taken = 0;
    for (const Chunk& chunk : chunks) num_taken += chunk.num_rows;
    if (num_taken == values.size()) return;
    std::vector<bool> is_there(values.size());
    for (const Chunk& chunk : chunks) {
      for (const Part& part : chunk.parts) {
        for (const Slice& slice : part.slices) is_there[slice.row] = true;
      }
    }
    for (std::size_t row = 0; row < values.size(); ++row) {
      if (!is_there[row]) values[row] = with;
    }
  };
  fill(op_chunks_, model_->ops, OpDetail());
  fill(api_chunks_, model_->call_correlation_ids, 0U);
  fill(api_chunks_, model_->call_range_instances, kNoRow);
  fill(instance_chunks_, model_->instance_ranges, kNoRow);
}

void ModelBuilder::find_step_bounds() {
  const std::vector<Step>& steps = model_->tables.steps;
  if (steps.empty()) return;
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t>& bounds = model_->step_bounds_ns;
  bounds.assign(steps.size() + 1, kNone);
  for (const Chunk& chunk : op_chunks_) {
    for (const auto& [step, start_ns] : chunk.step_starts) {
      if (static_cast<std::size_t>(step) >= steps.size()) continue;
      std::int64_t& bound = bounds[static_cast<std::size_t>(step)];
      bound = std::min(bound, start_ns);
    }
  }
  std::int64_t last_end_ns = steps.back().end_ns;
  for (const Lane& lane : model_->lanes) {
    if (!has_operations(lane.kind)) continue;
    for (const SliceRow& row : lane.rows) last_end_ns = std::max(last_end_ns, row.end_ns());
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (bounds[i] == kNone) bounds[i] = steps[i].start_ns;
    if (i > 0) bounds[i] = std::max(bounds[i], bounds[i - 1]);
  }
  bounds.back() = std::max(last_end_ns, bounds[steps.size() - 1]);
}

void ModelBuilder::name_lanes() {
  const Trace& tables = model_->tables;
  const auto thread_name = [&](std::uint32_t row) -> std::string {
    if (row >= tables.threads.size()) return "unknown thread";
    const ThreadInfo& thread = tables.threads[row];
    const std::string& name = tables.text(thread.name);
    return name.empty() ? fmt::format("thread {}", thread.tid) : name;
  };
  const bool has_ranks = num_ranks(tables) > 1;
  const auto device_name = [&](const Lane& lane) -> std::string {
    if (has_ranks) return fmt::format("Rank {} ", rank_of_device(tables, lane.device));
    return tables.devices.size() > 1 ? fmt::format("GPU {} ", lane.device) : "";
  };
  const auto title = [&](const Lane& lane, std::string text) {
    text = device_name(lane) + text;
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
    return text;
  };
  for (Lane& lane : model_->lanes) {
    const std::string count = format_count(static_cast<std::int64_t>(lane.num_slices()));
    switch (lane.kind) {
      case LaneKind::kSteps: lane.title = "Steps"; break;
      case LaneKind::kPhases: lane.title = "Phases"; break;
      case LaneKind::kModules: lane.title = "Modules"; break;
      case LaneKind::kStream:
        lane.title = title(lane, fmt::format("stream {}", lane.id));
        lane.note = count + " ops";
        break;
      case LaneKind::kGraph:
        lane.title =
            title(lane, std::string(name_of(lane.id == kGraphCommunication ? OpTrack::kCommunication
                                                                           : OpTrack::kGraph)));
        lane.note = count + " ops";
        break;
      case LaneKind::kOperators:
        lane.title = has_ranks ? title(lane, "operators") : "Operators";
        lane.note = count + " ops";
        break;
      case LaneKind::kRanges:
        lane.title = "Ranges";
        lane.note = thread_name(lane.id);
        break;
      case LaneKind::kCalls:
        lane.title = "CUDA calls";
        lane.note = thread_name(lane.id);
        break;
      case LaneKind::kSyncs: lane.title = "Waits"; break;
    }
  }
}

std::shared_ptr<const TraceModel> ModelBuilder::finish(Trace tables, int num_threads) {
  if (progress_ != nullptr) progress_->stage = "building lanes";
  model_->tables = std::move(tables);
  model_->range_paths = range_paths(model_->tables);
  model_->range_modules = module_paths(model_->tables);
  model_->names.describe_operations(is_operation_name_);
  fill_missing_rows();

  plan_lanes(op_chunks_, LaneKind::kStream);
  plan_lanes(instance_chunks_, LaneKind::kRanges);
  plan_lanes(api_chunks_, LaneKind::kCalls);
  make_all_rows(num_threads);

  const auto join = [](const Chunks& chunks, auto& values) {
    for (const Chunk& chunk : chunks) {
      for (const auto& [row, value] : chunk.values) {
        values.emplace_back(row, static_cast<decltype(values.back().second)>(value));
      }
    }
    if (!std::ranges::is_sorted(values)) std::ranges::sort(values);
    values.shrink_to_fit();
  };
  join(op_chunks_, model_->op_bytes);
  join(api_chunks_, model_->failed_calls);

  bool has_times = false;
  for (const Chunks* chunks : {&op_chunks_, &api_chunks_, &instance_chunks_}) {
    for (const Chunk& chunk : *chunks) {
      if (!chunk.has_times) continue;
      model_->start_ns = has_times ? std::min(model_->start_ns, chunk.start_ns) : chunk.start_ns;
      model_->end_ns = has_times ? std::max(model_->end_ns, chunk.end_ns) : chunk.end_ns;
      has_times = true;
    }
  }
  find_step_bounds();
  add_derived_lanes(*model_);
  model_->counters = counter_series(model_->tables);
  if (auto allocated = allocated_series(model_->tables)) {
    model_->counters.push_back(std::move(*allocated));
  }
  name_lanes();
  group_by_rank(*model_);
  model_->banners = banners_of(model_->tables);
  return std::move(model_);
}

}  // namespace steplens
