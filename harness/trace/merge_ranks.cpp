#include "harness/trace/merge_ranks.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "harness/block.h"
#include "harness/error.h"
#include "harness/trace/trace_reader.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxDevices = 256;  // GpuOp::device is a byte.
constexpr int kRankBits = 56;             // Above them a graph node's number names the rank.

std::int64_t integer_in(const json& info, std::string_view key) {
  const auto it = info.find(key);
  return it != info.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

// Unix time of a trace's zero by rank 0's clock.
std::int64_t start_of(const Trace& trace) {
  return integer_in(trace.info, "start_unix_ns") - integer_in(trace.info, kClockOffsetKey);
}

// Counts add up; of these the largest says how bad it was.
bool is_extreme(std::string_view counter) {
  return counter == quality::kPeakSlabs || counter == quality::kMaxDecodeLagNs ||
         counter == quality::kClockResidualNs || counter == quality::kTruncated;
}

// Appends the traces of further ranks to that of rank 0.
class Merger {
 public:
  explicit Merger(Trace first) : merged_(std::move(first)) {
    for (std::size_t i = 0; i < merged_.strings.size(); ++i) {
      ids_.emplace(merged_.strings[i], static_cast<StringId>(i));
    }
    start_ns_ = start_of(merged_);
    ranks_.push_back(row_of(merged_, /*rank=*/0, /*device=*/0, /*thread=*/0));
    name_after_rank(0, 0, 0, 0);
    see_correlations(merged_);
  }

  void append(Trace trace) {
    const auto device = static_cast<std::uint32_t>(merged_.devices.size());
    const auto thread = static_cast<std::uint32_t>(merged_.threads.size());
    const auto track = static_cast<std::uint32_t>(merged_.counter_tracks.size());
    const int rank = static_cast<int>(ranks_.size());
    SL_CHECK(device + std::max<std::size_t>(1, trace.devices.size()) <= kMaxDevices);
    ranks_.push_back(row_of(trace, rank, device, thread));
    take_strings(trace);
    const Shift shift{.time_ns = start_of(trace) - start_ns_,
                      .device = device,
                      .thread = thread,
                      .track = track,
                      .correlation = last_correlation_,
                      .range = static_cast<std::uint32_t>(merged_.ranges.size()),
                      .instance = static_cast<std::uint32_t>(merged_.range_instances.size()),
                      .shape = static_cast<std::uint32_t>(merged_.launch_shapes.size()),
                      .node = std::uint64_t(rank) << kRankBits};
    append_operations(trace, shift);
    append_host(trace, shift);
    append_rest(trace, shift);
    name_after_rank(rank, device, thread, track);
    see_correlations(merged_);
    for (const auto& [name, count] : trace.quality) {
      std::int64_t& sum = merged_.quality[name];
      sum = is_extreme(name) ? std::max(sum, count) : sum + count;
    }
  }

  Trace finish() && {
    merged_.info[std::string(kRanksKey)] = ranks_;
    return std::move(merged_);
  }

 private:
  // What is added to the times, ids and rows of a trace.
  struct Shift {
    std::int64_t time_ns;
    std::uint32_t device, thread, track, correlation, range, instance, shape;
    std::uint64_t node;
  };
  static std::uint32_t shifted(std::uint32_t row, std::uint32_t by) {
    return row == kNoRow ? kNoRow : row + by;
  }
  static std::uint32_t shifted_id(std::uint32_t id, std::uint32_t by) {
    return id == 0 ? 0 : id + by;
  }

  static json row_of(const Trace& trace, int rank, std::uint32_t device, std::uint32_t thread) {
    return {{"rank", rank},
            {"first_device", device},
            {"first_thread", thread},
            {kClockOffsetKey, integer_in(trace.info, kClockOffsetKey)},
            {kClockUncertaintyKey, integer_in(trace.info, kClockUncertaintyKey)}};
  }

  StringId id_of(const std::string& text) {
    const auto [it, is_new] = ids_.try_emplace(text, static_cast<StringId>(merged_.strings.size()));
    if (is_new) merged_.strings.push_back(text);
    return it->second;
  }

  void take_strings(const Trace& trace) {
    new_ids_.clear();
    for (const std::string& text : trace.strings) new_ids_.push_back(id_of(text));
  }

  void append_operations(Trace& trace, const Shift& by) {
    for (LaunchShape& shape : trace.launch_shapes) merged_.launch_shapes.push_back(shape);
    merged_.gpu_ops.reserve(merged_.gpu_ops.size() + trace.gpu_ops.size());
    for (GpuOp& op : trace.gpu_ops) {
      op.start_ns += by.time_ns;
      op.end_ns += by.time_ns;
      op.name = new_ids_[op.name];
      op.correlation_id = shifted_id(op.correlation_id, by.correlation);
      if (op.graph_node_id != 0) op.graph_node_id |= by.node;
      if (op.kind == GpuOpKind::kOperator) op.stream_id += by.thread;
      op.launch_shape = shifted(op.launch_shape, by.shape);
      op.range = shifted(op.range, by.range);
      if (op.step_index >= std::ssize(merged_.steps)) op.step_index = -1;
      op.device = static_cast<std::uint8_t>(op.device + by.device);
      merged_.gpu_ops.push_back(op);
    }
  }

  void append_host(Trace& trace, const Shift& by) {
    for (Range& range : trace.ranges) {
      range.name = new_ids_[range.name];
      range.domain = new_ids_[range.domain];
      range.parent = shifted(range.parent, by.range);
      merged_.ranges.push_back(range);
    }
    for (RangeInstance& instance : trace.range_instances) {
      instance.start_ns += by.time_ns;
      instance.end_ns += by.time_ns;
      instance.range = shifted(instance.range, by.range);
      instance.thread = shifted(instance.thread, by.thread);
      instance.parent = shifted(instance.parent, by.instance);
      merged_.range_instances.push_back(instance);
    }
    for (Api& api : trace.apis) {
      api.start_ns += by.time_ns;
      api.end_ns += by.time_ns;
      api.name = new_ids_[api.name];
      api.correlation_id = shifted_id(api.correlation_id, by.correlation);
      api.thread = shifted(api.thread, by.thread);
      api.range_instance = shifted(api.range_instance, by.instance);
      merged_.apis.push_back(api);
    }
    for (Sync& sync : trace.syncs) {
      sync.start_ns += by.time_ns;
      sync.end_ns += by.time_ns;
      sync.name = new_ids_[sync.name];
      sync.correlation_id = shifted_id(sync.correlation_id, by.correlation);
      merged_.syncs.push_back(sync);
    }
    for (ThreadInfo& thread : trace.threads) {
      thread.name = new_ids_[thread.name];
      merged_.threads.push_back(thread);
    }
  }

  void append_rest(Trace& trace, const Shift& by) {
    for (Alloc& alloc : trace.allocs) {
      alloc.time_ns += by.time_ns;
      alloc.range = shifted(alloc.range, by.range);
      alloc.device = static_cast<std::uint8_t>(alloc.device + by.device);
      merged_.allocs.push_back(alloc);
    }
    for (CounterTrack& track : trace.counter_tracks) {
      track.name = new_ids_[track.name];
      track.unit = new_ids_[track.unit];
      track.absent_reason = new_ids_[track.absent_reason];
      merged_.counter_tracks.push_back(track);
    }
    for (CounterSample& sample : trace.counter_samples) {
      sample.time_ns += by.time_ns;
      sample.track = shifted(sample.track, by.track);
      merged_.counter_samples.push_back(sample);
    }
    // An operator of a CPU is on device 0 without a row for it.
    if (trace.devices.empty()) trace.devices.emplace_back();
    for (DeviceInfo& device : trace.devices) {
      device.name = new_ids_[device.name];
      device.uuid = new_ids_[device.uuid];
      merged_.devices.push_back(device);
    }
  }

  void name_after_rank(int rank, std::uint32_t device, std::uint32_t thread, std::uint32_t track) {
    if (merged_.devices.empty()) merged_.devices.emplace_back();
    const auto rename = [&](auto& rows, std::size_t first) {
      for (std::size_t i = first; i < rows.size(); ++i) {
        const std::string name = merged_.strings[rows[i].name];
        rows[i].name = id_of(fmt::format("rank {}{}{}", rank, name.empty() ? "" : " ", name));
      }
    };
    rename(merged_.devices, device);
    rename(merged_.threads, thread);
    if (rank > 0) rename(merged_.counter_tracks, track);  // Rank 0's are known by their names.
  }

  void see_correlations(const Trace& trace) {
    for (const Api& api : trace.apis) {
      last_correlation_ = std::max(last_correlation_, api.correlation_id);
    }
    for (const GpuOp& op : trace.gpu_ops) {
      last_correlation_ = std::max(last_correlation_, op.correlation_id);
    }
    for (const Sync& sync : trace.syncs) {
      last_correlation_ = std::max(last_correlation_, sync.correlation_id);
    }
  }

  Trace merged_;
  std::int64_t start_ns_ = 0;
  std::uint32_t last_correlation_ = 0;
  json ranks_ = json::array();
  std::unordered_map<std::string, StringId> ids_;  // Of merged_.strings.
  std::vector<StringId> new_ids_;                  // By StringId of the trace that is appended.
};

int rank_of_row(const Trace& trace, const char* key, std::uint32_t row) {
  const auto ranks = trace.info.find(kRanksKey);
  if (ranks == trace.info.end() || !ranks->is_array()) return 0;
  int rank = 0;
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    if (ranks->at(i).is_object() && integer_in(ranks->at(i), key) <= row) {
      rank = static_cast<int>(i);
    }
  }
  return rank;
}

}  // namespace

Trace merge_ranks(std::vector<Trace> ranks) {
  SL_CHECK(!ranks.empty());
  if (ranks.size() == 1) return std::move(ranks.front());
  Merger merger(std::move(ranks.front()));
  for (std::size_t i = 1; i < ranks.size(); ++i) merger.append(std::move(ranks[i]));
  return std::move(merger).finish();
}

int num_ranks(const Trace& trace) {
  const auto ranks = trace.info.find(kRanksKey);
  const bool is_merged = ranks != trace.info.end() && ranks->is_array() && !ranks->empty();
  return is_merged ? static_cast<int>(ranks->size()) : 1;
}

int rank_of_device(const Trace& trace, std::uint32_t device) {
  return rank_of_row(trace, "first_device", device);
}

int rank_of_thread(const Trace& trace, std::uint32_t thread) {
  return rank_of_row(trace, "first_thread", thread);
}

std::vector<fs::path> rank_trace_paths(const fs::path& trace) {
  std::vector<fs::path> paths = {trace};
  if (trace.filename() != kTraceFileName) return paths;
  std::error_code error;
  while (true) {
    fs::path next = trace.parent_path() / fmt::format("trace.rank{}.slt", paths.size());
    if (!fs::exists(next, error)) return paths;
    paths.push_back(std::move(next));
  }
}

Trace read_rank_traces(const fs::path& trace) {
  std::vector<Trace> ranks;
  for (const fs::path& path : rank_trace_paths(trace)) ranks.push_back(read_trace(path));
  return merge_ranks(std::move(ranks));
}

}  // namespace steplens
