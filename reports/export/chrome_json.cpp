#include "reports/export/chrome_json.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/breakdown/kernel_names.h"
#include "reports/breakdown/kernel_patterns.h"
#include "reports/breakdown/op_tracks.h"
#include "reports/export/lanes.h"
#include "reports/export/op_names.h"
#include "reports/export/output_file.h"
#include "reports/export/utf8.h"

namespace steplens {
namespace {

using nlohmann::json;

// The real process id says nothing, and in a container it may be that of a device's process.
constexpr std::uint32_t kHostPid = 1;
constexpr std::uint32_t kFirstDevicePid = 2;

struct Track {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
};

// Viewers know tracks by number: those of streams and threads stay, further ones get free numbers.
class TrackNumbers {
 public:
  // `wanted` if it is free and a number that every viewer can hold, else another one.
  std::uint32_t take(std::uint64_t wanted) {
    const bool fits = wanted > 0 && wanted < (1U << 31);  // 0 is Linux's idle thread.
    if (fits && taken_.insert(static_cast<std::uint32_t>(wanted)).second) {
      return static_cast<std::uint32_t>(wanted);
    }
    while (!taken_.insert(next_).second) ++next_;
    return next_;
  }
  void keep_below(std::uint64_t number) {
    if (number < (1U << 31)) next_ = std::max(next_, static_cast<std::uint32_t>(number) + 1);
  }

 private:
  std::set<std::uint32_t> taken_;
  std::uint32_t next_ = 1;
};

enum HostTable : std::uint32_t { kRangeTable, kOperatorTable, kApiTable };

std::string json_string(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

std::string_view event_category_of(GpuOpKind kind) {
  switch (kind) {
    case GpuOpKind::kCopy: return "gpu_memcpy";
    case GpuOpKind::kSet: return "gpu_memset";
    case GpuOpKind::kGraph: return "gpu_graph";
    case GpuOpKind::kOperator: return "cpu_op";
    default: return "kernel";
  }
}

class Writer {
 public:
  Writer(const Trace& trace, const std::filesystem::path& path, const RowProgress& progress)
      : trace_(trace),
        file_(path),
        counter_(progress, static_cast<std::int64_t>(trace.gpu_ops.size() + trace.apis.size() +
                                                     trace.range_instances.size())),
        offset_ns_(-std::min<std::int64_t>(0, first_ns())),
        titles_(trace.strings.size()) {
    for (const std::string& range : range_paths(trace)) paths_.push_back(json_string(range));
    api_tids_.resize(trace.apis.size());
    for (std::uint32_t row = 0; row < trace.apis.size(); ++row) {
      if (trace.apis[row].correlation_id != 0) {
        launches_.emplace_back(trace.apis[row].correlation_id, row);
      }
    }
    std::ranges::sort(launches_);
  }

  void write() {
    name_host_tracks();
    write_head();
    write_host();
    write_syncs();
    write_devices();
    write_counters();
    write_allocs();
    line_ += "\n]}\n";
    file_.write(line_);
    file_.publish();
  }

 private:
  std::int64_t first_ns() const {
    std::int64_t first = 0;
    const auto look_at = [&first](const auto& rows, auto member) {
      for (const auto& row : rows) first = std::min(first, row.*member);
    };
    look_at(trace_.gpu_ops, &GpuOp::start_ns);
    look_at(trace_.apis, &Api::start_ns);
    look_at(trace_.range_instances, &RangeInstance::start_ns);
    look_at(trace_.syncs, &Sync::start_ns);
    look_at(trace_.steps, &Step::start_ns);
    look_at(trace_.counter_samples, &CounterSample::time_ns);
    look_at(trace_.allocs, &Alloc::time_ns);
    return first;
  }

  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(line_), format, std::forward<Args>(args)...);
  }

  void put_us(std::int64_t ns) { put("{}.{:03}", ns / 1000, ns % 1000); }

  // ---- Head: what the format has no events for ----

  void name_host_tracks() {
    for (const ThreadInfo& thread : trace_.threads) host_numbers_.keep_below(thread.tid);
    for (const ThreadInfo& thread : trace_.threads) {
      thread_tids_.push_back(host_numbers_.take(thread.tid));
    }
    thread_tids_.push_back(host_numbers_.take(0));  // Of what has no thread.
  }

  std::string header() const {
    json threads = json::array();
    for (std::size_t row = 0; row < trace_.threads.size(); ++row) {
      threads.push_back({{"tid", trace_.threads[row].tid},
                         {"name", trace_.text(trace_.threads[row].name)},
                         {"track", thread_tids_[row]}});
    }
    json devices = json::array();
    for (const DeviceInfo& device : trace_.devices) {
      devices.push_back({{"name", trace_.text(device.name)}, {"uuid", trace_.text(device.uuid)}});
    }
    json tracks = json::array();
    for (const CounterTrack& track : trace_.counter_tracks) {
      tracks.push_back({{"name", trace_.text(track.name)},
                        {"unit", trace_.text(track.unit)},
                        {"absent_reason", trace_.text(track.absent_reason)}});
    }
    std::set<StringId> named;
    for (const GpuOp& op : trace_.gpu_ops) named.insert(op.name);
    json names = json::array();
    for (const StringId id : named) {
      const std::string& recorded = trace_.text(id);
      json name = {{"id", id}, {"name", recorded}};
      if (std::string text = demangled(recorded); text != recorded) name["demangled"] = text;
      names.push_back(std::move(name));
    }
    const json header = {{"schema_version", kChromeHeaderVersion},
                         {"ts_offset_ns", offset_ns_},
                         {"info", trace_.info},
                         {"quality", trace_.quality},
                         {"threads", std::move(threads)},
                         {"devices", std::move(devices)},
                         {"counter_tracks", std::move(tracks)},
                         {"op_names", std::move(names)}};
    return header.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  void write_head() {
    put("{{\"schemaVersion\":1,\"displayTimeUnit\":\"ns\",");
    const auto start = trace_.info.find("start_unix_ns");
    if (start != trace_.info.end() && start->is_number_integer()) {
      put("\"baseTimeNanoseconds\":{},", start->get<std::int64_t>() - offset_ns_);
    }
    put("\"deviceProperties\":[");
    for (std::size_t row = 0; row < trace_.devices.size(); ++row) {
      put("{}{{\"id\":{},\"name\":{}}}", row == 0 ? "" : ",", row,
          json_string(trace_.text(trace_.devices[row].name)));
    }
    put("],\n\"steplens\":{},\n\"traceEvents\":[", json_string(header()));
    write_process(kHostPid, "host");
    std::set<std::uint8_t> devices;
    for (std::size_t row = 0; row < trace_.devices.size(); ++row) {
      devices.insert(static_cast<std::uint8_t>(row));
    }
    for (const GpuOp& op : trace_.gpu_ops) {
      if (op.kind != GpuOpKind::kOperator) devices.insert(op.device);
    }
    for (const std::uint8_t device : devices) {
      const std::string name =
          device < trace_.devices.size() ? trace_.text(trace_.devices[device].name) : "";
      write_process(kFirstDevicePid + device,
                    fmt::format("GPU {}{}{}", device, name.empty() ? "" : ": ", name));
    }
  }

  // ---- Events ----

  void begin_event(char phase, std::string_view category, std::string_view quoted_name,
                   Track track) {
    if (line_.size() > 60'000) {
      file_.write(line_);
      line_.clear();
    }
    put("{}\n{{\"ph\":\"{}\",", has_events_ ? "," : "", phase);
    if (!category.empty()) put("\"cat\":\"{}\",", category);
    put("\"name\":{},\"pid\":{},\"tid\":{}", quoted_name, track.pid, track.tid);
    has_events_ = true;
  }

  void put_ts(std::int64_t time_ns) {
    put(",\"ts\":");
    put_us(time_ns + offset_ns_);
  }

  // Leaves `args` open.
  void begin_slice(std::string_view category, std::string_view quoted_name, Track track,
                   std::int64_t start_ns, std::int64_t end_ns) {
    begin_event('X', category, quoted_name, track);
    put_ts(start_ns);
    put(",\"dur\":");
    put_us(std::max<std::int64_t>(0, end_ns - start_ns));
    put(",\"args\":{{\"start_ns\":{},\"duration_ns\":{}", start_ns, end_ns - start_ns);
  }

  void end_slice() { line_ += "}}"; }

  void put_text_arg(std::string_view key, std::string_view text) {
    if (!text.empty()) put(",\"{}\":{}", key, json_string(text));
  }

  void write_metadata(std::string_view what, Track track, std::string_view key,
                      std::string_view json_value) {
    begin_event('M', "", json_string(what), track);
    put(",\"ts\":0,\"args\":{{\"{}\":{}}}}}", key, json_value);
  }

  void write_process(std::uint32_t pid, std::string_view name) {
    write_metadata("process_name", {pid, 0}, "name", json_string(name));
    write_metadata("process_sort_index", {pid, 0}, "sort_index", std::to_string(pid));
  }

  void write_track(Track track, std::string_view name) {
    write_metadata("thread_name", track, "name", json_string(name));
    write_metadata("thread_sort_index", track, "sort_index", std::to_string(++num_tracks_));
  }

  // The track of a lane; names it when it is first asked for.
  Track lane_track(std::vector<std::uint32_t>& tids, std::uint32_t lane, std::uint32_t pid,
                   std::string_view name, TrackNumbers& numbers, std::uint64_t first_number) {
    while (tids.size() <= lane) {
      const bool is_first = tids.empty();
      tids.push_back(numbers.take(is_first ? first_number : 0));
      write_track({pid, tids.back()},
                  is_first ? std::string(name) : fmt::format("{} (overlap {})", name, tids.size()));
    }
    return {pid, tids[lane]};
  }

  // ---- Host ----

  void write_host() {
    const Track steps{kHostPid, host_numbers_.take(0)};
    if (!trace_.steps.empty()) write_track(steps, "steps");
    for (const Step& step : trace_.steps) {
      // Kineto's name for it, so that its other readers find the steps.
      begin_slice("user_annotation",
                  json_string(fmt::format("ProfilerStep#{}", step.first_step_number)), steps,
                  step.start_ns, step.end_ns);
      put(",\"is_step\":1");
      end_slice();
    }
    std::vector<std::vector<LaneSlice>> slices(thread_tids_.size());
    const auto slices_of = [&](std::uint32_t thread) -> std::vector<LaneSlice>& {
      return slices[std::min<std::size_t>(thread, slices.size() - 1)];
    };
    for (std::uint32_t row = 0; row < trace_.range_instances.size(); ++row) {
      const RangeInstance& instance = trace_.range_instances[row];
      slices_of(instance.thread).push_back({instance.start_ns, instance.end_ns, row, kRangeTable});
    }
    for (std::uint32_t row = 0; row < trace_.gpu_ops.size(); ++row) {
      const GpuOp& op = trace_.gpu_ops[row];
      if (op.kind != GpuOpKind::kOperator) continue;
      slices_of(op.stream_id).push_back({op.start_ns, op.end_ns, row, kOperatorTable});
    }
    for (std::uint32_t row = 0; row < trace_.apis.size(); ++row) {
      const Api& api = trace_.apis[row];
      slices_of(api.thread).push_back({api.start_ns, api.end_ns, row, kApiTable});
    }
    for (std::size_t thread = 0; thread < slices.size(); ++thread) {
      write_host_thread(thread, slices[thread]);
      slices[thread] = {};
    }
  }

  void write_host_thread(std::size_t thread, std::vector<LaneSlice>& slices) {
    const bool is_known = thread < trace_.threads.size();
    if (slices.empty() && !is_known) return;
    std::string name = is_known ? trace_.text(trace_.threads[thread].name) : "unknown thread";
    if (name.empty()) name = "thread";
    std::vector<std::uint32_t> tids = {thread_tids_[thread]};
    write_track({kHostPid, tids.front()}, name);
    const std::vector<std::uint32_t> lanes = assign_lanes(slices, Overlap::kNested);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const Track track = lane_track(tids, lanes[i], kHostPid, name, host_numbers_, 0);
      const std::uint32_t row = slices[i].row;
      switch (slices[i].table) {
        case kRangeTable: write_range(trace_.range_instances[row], track); break;
        case kOperatorTable: write_op(trace_.gpu_ops[row], track); break;
        default: write_api(row, track); break;
      }
      counter_.count();
    }
  }

  void write_range(const RangeInstance& instance, Track track) {
    const Range& range = trace_.ranges[instance.range];
    begin_slice("user_annotation", json_string(trace_.text(range.name)), track, instance.start_ns,
                instance.end_ns);
    put_text_arg("domain", trace_.text(range.domain));
    if (!is_told_by_nesting(instance)) put(",\"range\":{}", paths_[instance.range]);
    end_slice();
  }

  // Whether a reader that knows slices and domains finds the range's place in the tree.
  bool is_told_by_nesting(const RangeInstance& instance) const {
    const Range& range = trace_.ranges[instance.range];
    if (instance.parent == kNoRow) return range.parent == kNoRow;
    const RangeInstance& outer = trace_.range_instances[instance.parent];
    return outer.thread == instance.thread && outer.range == range.parent &&
           trace_.ranges[outer.range].domain == range.domain;
  }

  void write_api(std::uint32_t row, Track track) {
    const Api& api = trace_.apis[row];
    const std::string& name = trace_.text(api.name);
    const bool is_driver = name.starts_with("cu") && !name.starts_with("cuda");
    begin_slice(is_driver ? "cuda_driver" : "cuda_runtime", json_string(name), track, api.start_ns,
                api.end_ns);
    if (api.correlation_id != 0) put(",\"correlation\":{}", api.correlation_id);
    if (api.return_value != 0) put(",\"return_value\":{}", api.return_value);
    end_slice();
    api_tids_[row] = track.tid;
  }

  void write_syncs() {
    if (trace_.syncs.empty()) return;
    std::vector<LaneSlice> slices;
    slices.reserve(trace_.syncs.size());
    for (std::uint32_t row = 0; row < trace_.syncs.size(); ++row) {
      slices.push_back({trace_.syncs[row].start_ns, trace_.syncs[row].end_ns, row, 0});
    }
    const std::vector<std::uint32_t> lanes = assign_lanes(slices, Overlap::kNone);
    std::vector<std::uint32_t> tids;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const Sync& sync = trace_.syncs[slices[i].row];
      const Track track = lane_track(tids, lanes[i], kHostPid, "synchronization", host_numbers_, 0);
      begin_slice("cuda_sync", json_string(trace_.text(sync.name)), track, sync.start_ns,
                  sync.end_ns);
      put(",\"stream\":{}", sync.stream_id);
      if (sync.correlation_id != 0) put(",\"correlation\":{}", sync.correlation_id);
      end_slice();
    }
  }

  // ---- Devices ----

  struct DeviceTrack {
    std::uint8_t device = 0;
    OpTrack kind = OpTrack::kStream;
    std::uint32_t stream = 0;  // 0 of a graph's tracks.
    auto operator<=>(const DeviceTrack&) const = default;
  };

  DeviceTrack device_track_of(const GpuOp& op) {
    const OpTrack kind = track_of(op, [&] {
      std::optional<bool>& known = communicates_[op.name];
      if (!known) known = category_of(trace_.text(op.name)) == KernelCategory::kCommunication;
      return *known;
    });
    return {op.device, kind, kind == OpTrack::kStream ? op.stream_id : 0};
  }

  void write_devices() {
    std::map<DeviceTrack, std::vector<LaneSlice>> tracks;
    std::map<std::uint8_t, TrackNumbers> numbers;
    for (std::uint32_t row = 0; row < trace_.gpu_ops.size(); ++row) {
      const GpuOp& op = trace_.gpu_ops[row];
      if (op.kind == GpuOpKind::kOperator) continue;
      tracks[device_track_of(op)].push_back({op.start_ns, op.end_ns, row, 0});
    }
    for (const auto& [key, slices] : tracks) numbers[key.device].keep_below(key.stream);
    for (auto& [key, slices] : tracks) {
      const auto [device, track_kind, stream] = key;
      const std::vector<std::uint32_t> lanes = assign_lanes(slices, Overlap::kNone);
      const bool is_stream = track_kind == OpTrack::kStream;
      const std::string name =
          is_stream ? fmt::format("stream {}", stream) : std::string(name_of(track_kind));
      std::vector<std::uint32_t> tids;
      for (std::size_t i = 0; i < slices.size(); ++i) {
        const Track track =
            lane_track(tids, lanes[i], kFirstDevicePid + device, name, numbers[device], stream);
        const GpuOp& op = trace_.gpu_ops[slices[i].row];
        write_op(op, track);
        write_arrow(op, track);
        counter_.count();
      }
      slices = {};
    }
  }

  const std::string& title_of(const GpuOp& op) {
    const bool is_transfer = op.kind == GpuOpKind::kCopy || op.kind == GpuOpKind::kSet;
    std::string& title = is_transfer ? transfer_title_ : titles_[op.name];
    if (is_transfer || title.empty()) title = json_string(op_title(trace_, op));
    return title;
  }

  void write_op(const GpuOp& op, Track track) {
    begin_slice(event_category_of(op.kind), title_of(op), track, op.start_ns, op.end_ns);
    put(",\"name_id\":{}", op.name);
    if (op.kind == GpuOpKind::kOperator) {
      put(",\"is_operator\":1");
    } else {
      put(",\"device\":{},\"stream\":{}", op.device, op.stream_id);
    }
    if (op.correlation_id != 0) put(",\"correlation\":{}", op.correlation_id);
    if (op.graph_node_id != 0) put(",\"graph node id\":{}", op.graph_node_id);
    if (op.bytes != 0) put(",\"bytes\":{}", op.bytes);
    put_text_arg("copy_kind", name_of(op.copy_kind));
    if (op.source_memory != MemoryKind::kUnknown) {
      put_text_arg("source_memory", name_of(op.source_memory));
    }
    if (op.target_memory != MemoryKind::kUnknown) {
      put_text_arg("target_memory", name_of(op.target_memory));
    }
    if (op.launch_shape != kNoRow) write_shape(trace_.launch_shapes[op.launch_shape]);
    if (op.step_index >= 0) put(",\"step_index\":{}", op.step_index);
    if (op.micro_step_index >= 0) put(",\"micro_step_index\":{}", op.micro_step_index);
    put_text_arg("phase", name_of(op.phase));
    if (op.range != kNoRow) {
      put(",\"range\":{}", paths_[op.range]);
      put_text_arg("range_domain", trace_.text(trace_.ranges[op.range].domain));
    }
    if (op.attribution != Attribution::kNone) put_text_arg("attribution", name_of(op.attribution));
    end_slice();
  }

  void write_shape(const LaunchShape& shape) {
    put(",\"grid\":[{},{},{}],\"block\":[{},{},{}],\"registers per thread\":{},"
        "\"shared memory\":{}",
        shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y, shape.block_z,
        shape.registers_per_thread,
        std::uint64_t{shape.static_shared_bytes} + shape.dynamic_shared_bytes);
    if (shape.dynamic_shared_bytes != 0) {
      put(",\"dynamic_shared_bytes\":{}", shape.dynamic_shared_bytes);
    }
  }

  // Each arrow has a number of its own: a viewer ends an arrow at its first target, and one graph
  // launch has many.
  void write_arrow(const GpuOp& op, Track track) {
    if (op.correlation_id == 0) return;
    const auto found = std::ranges::lower_bound(launches_, op.correlation_id, {},
                                                &std::pair<std::uint32_t, std::uint32_t>::first);
    if (found == launches_.end() || found->first != op.correlation_id) return;
    const Api& api = trace_.apis[found->second];
    if (op.start_ns < api.start_ns) return;  // It would point backwards, which viewers refuse.
    ++num_arrows_;
    begin_event('s', "ac2g", "\"ac2g\"", {kHostPid, api_tids_[found->second]});
    put_ts(api.start_ns);
    put(",\"id\":{}}}", num_arrows_);
    begin_event('f', "ac2g", "\"ac2g\"", track);
    put_ts(op.start_ns);
    put(",\"id\":{},\"bp\":\"e\"}}", num_arrows_);
  }

  // ---- Counters ----

  void write_counter(std::uint32_t pid, std::string_view quoted_name, std::int64_t time_ns,
                     std::string_view quoted_series, std::string_view value) {
    begin_event('C', "", quoted_name, {pid, 0});
    put_ts(time_ns);
    put(",\"args\":{{{}:{}}}}}", quoted_series, value);
  }

  void write_counters() {
    const std::uint32_t pid = trace_.devices.empty() ? kHostPid : kFirstDevicePid;
    std::vector<std::pair<std::string, std::string>> names;
    for (const CounterTrack& track : trace_.counter_tracks) {
      const std::string& unit = trace_.text(track.unit);
      names.emplace_back(json_string(trace_.text(track.name)),
                         json_string(unit.empty() ? "value" : unit));
    }
    for (const CounterSample& sample : trace_.counter_samples) {
      // JSON has no number for the others.
      if (!std::isfinite(sample.value) || sample.track >= names.size()) continue;
      write_counter(pid, names[sample.track].first, sample.time_ns, names[sample.track].second,
                    fmt::format("{}", sample.value));
    }
  }

  // What was allocated before the window is unknown: the curve starts high enough never to be
  // negative.
  void write_allocs() {
    write_bytes("allocated_bytes", AllocAction::kAlloc, AllocAction::kFree);
    write_bytes("reserved_bytes", AllocAction::kSegmentAlloc, AllocAction::kSegmentFree);
  }

  void write_bytes(std::string_view name, AllocAction gain, AllocAction loss) {
    const auto change_of = [&](const Alloc& alloc) {
      const bool is_gain = alloc.action == gain || (gain == AllocAction::kSegmentAlloc &&
                                                    alloc.action == AllocAction::kSegmentMap);
      const bool is_loss = alloc.action == loss || (loss == AllocAction::kSegmentFree &&
                                                    alloc.action == AllocAction::kSegmentUnmap);
      return is_gain ? alloc.bytes : is_loss ? -alloc.bytes : 0;
    };
    std::map<std::uint8_t, std::int64_t> current;
    std::map<std::uint8_t, std::int64_t> lowest;
    for (const Alloc& alloc : trace_.allocs) {
      std::int64_t& bytes = current[alloc.device];
      bytes += change_of(alloc);
      lowest[alloc.device] = std::min(lowest[alloc.device], bytes);
    }
    for (auto& [device, bytes] : current) bytes = -lowest[device];
    for (const Alloc& alloc : trace_.allocs) {
      const std::int64_t change = change_of(alloc);
      if (change == 0) continue;
      std::int64_t& bytes = current[alloc.device];
      bytes += change;
      write_counter(kFirstDevicePid + alloc.device, json_string(name), alloc.time_ns, "\"B\"",
                    std::to_string(bytes));
    }
  }

  const Trace& trace_;
  OutputFile file_;
  RowCounter counter_;
  std::int64_t offset_ns_;
  std::string line_;
  bool has_events_ = false;
  TrackNumbers host_numbers_;
  std::vector<std::uint32_t> thread_tids_;  // Of each thread, and last of none.
  std::vector<std::uint32_t> api_tids_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> launches_;  // Correlation id, row of apis.
  std::vector<std::string> paths_;                                 // Of each range, quoted.
  std::vector<std::string> titles_;  // Of each string as an operation's name, quoted, once asked.
  std::string transfer_title_;
  std::map<StringId, std::optional<bool>> communicates_;  // Of names of graph nodes, once asked.
  std::uint64_t num_arrows_ = 0;
  std::uint32_t num_tracks_ = 0;
};

}  // namespace

void write_chrome_json(const std::filesystem::path& path, const Trace& trace,
                       const RowProgress& progress) {
  Writer(trace, path, progress).write();
}

}  // namespace steplens
