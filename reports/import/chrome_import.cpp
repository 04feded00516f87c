#include "reports/import/chrome_import.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/export/chrome_json.h"
#include "reports/export/op_names.h"
#include "reports/import/tolerant_json.h"
#include "reports/import/trace_assembler.h"

namespace steplens {
namespace {

using nlohmann::json;

// Times above it are since 1970, not since the start of the profiler: a year.
constexpr std::int64_t kEpochNs = 365LL * 24 * 3600 * 1'000'000'000;
// No event is further away: 126 years, so that differences of times fit into 64 bits.
constexpr std::int64_t kMaxTimeNs = 4'000'000'000'000'000'000;
constexpr std::int64_t kMaxDevices = 255;

struct Value {
  std::string text;                    // Of a string or a number.
  std::vector<std::int64_t> integers;  // Of an array.
  bool is_number = false;

  std::optional<std::int64_t> integer() const {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && (at == end || *at == '.')) return number;
    return std::nullopt;
  }
};

// One event as it was read: members and arguments by key. Reused, so that strings keep their
// memory.
class Event {
 public:
  void clear() {
    num_members_ = 0;
    num_arguments_ = 0;
  }
  Value& add_member(std::string_view key) { return add(members_, num_members_, key); }
  Value& add_argument(std::string_view key) { return add(arguments_, num_arguments_, key); }

  std::string_view text(std::string_view key) const { return text_in(members_, num_members_, key); }
  std::string_view argument(std::string_view key) const {
    return text_in(arguments_, num_arguments_, key);
  }
  const Value* find_argument(std::string_view key) const {
    return find(arguments_, num_arguments_, key);
  }
  std::optional<std::int64_t> integer(std::string_view key) const {
    const Value* value = find(members_, num_members_, key);
    return value == nullptr ? std::nullopt : value->integer();
  }
  std::int64_t argument_or(std::string_view key, std::int64_t fallback) const {
    const Value* value = find_argument(key);
    return value == nullptr ? fallback : value->integer().value_or(fallback);
  }
  template <class Visit>
  void for_each_argument(Visit visit) const {
    for (std::size_t i = 0; i < num_arguments_; ++i)
      visit(arguments_[i].first, arguments_[i].second);
  }

 private:
  using Values = std::vector<std::pair<std::string, Value>>;

  static Value& add(Values& values, std::size_t& size, std::string_view key) {
    if (size == values.size()) values.emplace_back();
    values[size].first = key;
    Value& value = values[size++].second;
    value.text.clear();
    value.integers.clear();
    value.is_number = false;
    return value;
  }
  static const Value* find(const Values& values, std::size_t size, std::string_view key) {
    for (std::size_t i = 0; i < size; ++i) {
      if (values[i].first == key) return &values[i].second;
    }
    return nullptr;
  }
  static std::string_view text_in(const Values& values, std::size_t size, std::string_view key) {
    const Value* value = find(values, size, key);
    return value == nullptr ? std::string_view() : value->text;
  }

  Values members_;
  Values arguments_;
  std::size_t num_members_ = 0;
  std::size_t num_arguments_ = 0;
};

std::uint32_t id_32(std::int64_t value) {
  return value < 0 ? 0 : static_cast<std::uint32_t>(value);
}

// "Memcpy HtoD (Pinned -> Device)", "Memset (Device)".
CopyKind copy_kind_in(std::string_view name) {
  for (const CopyKind kind :
       {CopyKind::kHostToDevice, CopyKind::kDeviceToHost, CopyKind::kDeviceToDevice,
        CopyKind::kPeerToPeer, CopyKind::kHostToHost}) {
    if (name.find(copy_title(kind)) != std::string_view::npos) return kind;
  }
  return CopyKind::kOther;
}

// A damaged header may have 1e300 there, which is no integer.
std::int64_t integer_of(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  throw json::type_error::create(302, "an integer is missing", &value);
}
std::int64_t integer_at(const json& object, const char* key) { return integer_of(object.at(key)); }

MemoryKind memory_kind_in(std::string_view name) {
  for (const MemoryKind kind : {MemoryKind::kPageable, MemoryKind::kPinned, MemoryKind::kDevice,
                                MemoryKind::kManaged, MemoryKind::kArray}) {
    if (name.find(memory_title(kind)) != std::string_view::npos) return kind;
  }
  return MemoryKind::kUnknown;
}

// Turns events into rows.
class Importer {
 public:
  explicit Importer(std::string name) : name_(std::move(name)) {}

  std::int64_t num_events() const { return num_events_; }

  void set_base_ns(std::int64_t base_ns) {
    if (is_time(base_ns)) base_ns_ = base_ns;
  }

  void add_device(std::int64_t id, std::string_view device_name) {
    if (header_ || id < 0 || id >= kMaxDevices) return;
    device(id).name = assembler_.text(device_name);
  }

  // Of a file of ours: what the format has no place for.
  void read_header(const std::string& text) {
    json header;
    try {
      header = json::parse(text);
      if (integer_at(header, "schema_version") > kChromeHeaderVersion) {
        throw ConfigError(fmt::format("{}: written by a newer Steplens", name_));
      }
      Trace& trace = assembler_.trace();
      offset_ns_ = integer_at(header, "ts_offset_ns");
      if (!is_time(offset_ns_)) {
        throw ConfigError(fmt::format("{}: damaged: ts_offset_ns={}", name_, offset_ns_));
      }
      trace.info = header.at("info");
      for (const auto& [name, count] : header.at("quality").items()) {
        trace.quality[name] = integer_of(count);
      }
      for (const json& thread : header.at("threads")) {
        const std::uint32_t row =
            assembler_.thread(fmt::format("1/{}", integer_at(thread, "track")),
                              static_cast<std::uint64_t>(integer_at(thread, "tid")));
        trace.threads[row].name = assembler_.text(thread.at("name").get<std::string>());
      }
      trace.devices.clear();
      for (const json& device : header.at("devices")) {
        trace.devices.push_back({.name = assembler_.text(device.at("name").get<std::string>()),
                                 .uuid = assembler_.text(device.at("uuid").get<std::string>())});
      }
      for (const json& track : header.at("counter_tracks")) {
        const auto unit = track.at("unit").get<std::string>();
        const std::uint32_t row = counter_track(track.at("name").get<std::string>(), unit);
        trace.counter_tracks[row].absent_reason =
            assembler_.text(track.at("absent_reason").get<std::string>());
      }
      for (const json& op : header.at("op_names")) {
        op_names_[integer_at(op, "id")] = assembler_.text(op.at("name").get<std::string>());
      }
      if (!trace.info.is_object()) trace.info = json::object();
    } catch (const json::exception& error) {
      throw ConfigError(fmt::format("{}: damaged: member steplens: {}", name_, error.what()));
    }
    header_ = true;
  }

  void add(const Event& event) {
    ++num_events_;
    const std::string_view phase = event.text("ph");
    if (phase.size() != 1) return;
    switch (phase.front()) {
      case 'X': add_complete(event); break;
      case 'B': begin(event); break;
      case 'E': end(event); break;
      case 'M': add_metadata(event); break;
      case 'C': add_counter(event); break;
      case 'i':
      case 'I': add_instant(event); break;
      default: break;  // Arrows, objects: nothing that a Trace has.
    }
  }

  Trace finish(bool is_truncated, std::int64_t num_mended, const std::string& file_name) {
    Trace& trace = assembler_.trace();
    if (is_truncated) trace.quality[std::string(quality::kTruncated)] = 1;
    std::int64_t num_open = 0;
    for (const auto& [track, stack] : begun_) num_open += std::ssize(stack);
    if (num_open > 0) assembler_.add_quality(quality::kOpenRanges, num_open);
    if (header_) refuse_unknown_steps();
    if (!header_) {
      drop_zero_times();
      take_operators();
      start_at_first_event();
      trace.info["run_kind"] = "import";
      trace.info["source_format"] = "chrome";
      trace.info["source_file"] = file_name;
      trace.info["num_mended"] = num_mended;
    }
    return assembler_.finish(
        {.has_attributions = header_, .has_steps = !trace.steps.empty() || header_});
  }

 private:
  struct Times {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  struct Begun {
    std::int64_t start_ns;
    std::string name;
  };
  struct Operator {
    std::uint32_t thread;
    Times times;
    StringId name;
  };

  static bool is_time(std::int64_t time_ns) {
    return time_ns >= -kMaxTimeNs && time_ns <= kMaxTimeNs;
  }

  // When the event was, or began.
  bool parse_time(const Event& event, std::int64_t& time_ns) const {
    std::int64_t ts_ns = 0;
    if (!parse_us(event.text("ts"), ts_ns) || !is_time(ts_ns)) return false;
    time_ns = ts_ns - offset_ns_;
    return is_time(time_ns);
  }

  // Absent, and counted, where the event has no usable times.
  std::optional<Times> times_of(const Event& event) {
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    const std::string_view duration = event.text("dur");
    if (!parse_time(event, start_ns) || (!duration.empty() && !parse_us(duration, duration_ns))) {
      assembler_.add_quality(quality::kUnknownKind);
      return std::nullopt;
    }
    // Of ours: the exact value, negative or not.
    if (header_) duration_ns = event.argument_or("duration_ns", duration_ns);
    if (duration_ns < 0 && !header_) {
      assembler_.add_quality(quality::kEndBeforeStart);
      return std::nullopt;
    }
    if (!is_time(duration_ns) || !is_time(start_ns + duration_ns)) {
      assembler_.add_quality(quality::kUnknownKind);
      return std::nullopt;
    }
    return Times{start_ns, start_ns + duration_ns};
  }

  std::uint32_t thread_of(const Event& event) {
    const std::string_view tid = event.text("tid");
    key_.assign(event.text("pid")).append("/").append(tid);
    return assembler_.thread(key_, static_cast<std::uint64_t>(event.integer("tid").value_or(0)));
  }

  DeviceInfo& device(std::int64_t id) {
    std::vector<DeviceInfo>& devices = assembler_.trace().devices;
    if (std::ssize(devices) <= id) devices.resize(static_cast<std::size_t>(id) + 1);
    return devices[static_cast<std::size_t>(id)];
  }

  void add_complete(const Event& event) {
    const std::string_view category = event.text("cat");
    if (category == "kernel") return add_op(event, GpuOpKind::kKernel);
    if (category == "gpu_memcpy") return add_op(event, GpuOpKind::kCopy);
    if (category == "gpu_memset") return add_op(event, GpuOpKind::kSet);
    if (category == "gpu_graph") return add_op(event, GpuOpKind::kGraph);
    if (category == "cuda_runtime" || category == "cuda_driver") return add_api(event);
    if (category == "cuda_sync") return add_sync(event);
    // The device's view of annotations, and the profiler's own time.
    if (category == "gpu_user_annotation" || category == "overhead" || category == "Trace") return;
    if (category == "cpu_op" && event.argument_or("is_operator", 0) != 0) {
      return add_op(event, GpuOpKind::kOperator);
    }
    const std::optional<Times> times = times_of(event);
    if (times) add_range(event, event.text("name"), *times);
  }

  void add_range(const Event& event, std::string_view name, Times times) {
    if (add_step(event, name, times)) return;
    const std::string_view category = event.text("cat");
    const std::uint32_t thread = thread_of(event);
    std::string_view domain = event.argument("domain");
    constexpr std::string_view kModule = "nn.Module: ";
    if (category == "python_function" && !header_) {
      // Frames cross what the program annotates; its modules are structure like annotations.
      if (name.starts_with(kModule)) {
        name.remove_prefix(kModule.size());
      } else {
        domain = "python";
      }
    }
    if (category == "cpu_op" && !header_) {
      operators_.push_back({thread, times, assembler_.text(name)});
    }
    assembler_.add_range(thread, times.start_ns, times.end_ns, name, domain,
                         header_ ? event.argument("range") : std::string_view());
  }

  // Steps of ours are on a track of their own. Kineto's are annotations like others, but each has
  // its number in its name: as ranges they are all "step".
  bool add_step(const Event& event, std::string_view name, Times times) {
    constexpr std::string_view kStep = "ProfilerStep#";
    if (!name.starts_with(kStep)) return false;
    const bool is_ours = header_ && event.argument_or("is_step", 0) != 0;
    if (header_ && !is_ours) return false;
    const std::int64_t number = step_number_of(name);
    if (number < 0) return false;
    std::vector<Step>& steps = assembler_.trace().steps;
    const Step step{
        .start_ns = times.start_ns, .end_ns = times.end_ns, .first_step_number = number};
    const bool is_known = std::ranges::any_of(
        steps, [&](const Step& other) { return other.first_step_number == number; });
    if (is_ours || !is_known) steps.push_back(step);
    if (!is_ours) assembler_.add_range(thread_of(event), times.start_ns, times.end_ns, "step");
    return true;
  }

  void add_op(const Event& event, GpuOpKind kind) {
    const std::optional<Times> times = times_of(event);
    if (!times) return;
    GpuOp op;
    op.kind = kind;
    op.start_ns = times->start_ns;
    op.end_ns = times->end_ns;
    op.name = op_name(event, kind);
    op.correlation_id = id_32(event.argument_or("correlation", 0));
    if (kind == GpuOpKind::kOperator) {
      op.stream_id = thread_of(event);
    } else {
      has_device_ = true;
      op.stream_id = id_32(event.argument_or("stream", event.integer("tid").value_or(0)));
      const std::int64_t id = event.argument_or("device", event.integer("pid").value_or(0));
      op.device = static_cast<std::uint8_t>(id >= 0 && id < kMaxDevices ? id : 0);
      if (!header_) device(op.device);
    }
    op.graph_node_id = static_cast<std::uint64_t>(event.argument_or("graph node id", 0));
    const std::string_view node = event.argument("graph node id");
    std::from_chars(node.data(), node.data() + node.size(), op.graph_node_id);
    op.bytes = std::max<std::int64_t>(0, event.argument_or("bytes", 0));
    read_transfer(event, op);
    read_shape(event, op);
    if (header_) read_attribution(event, op);
    assembler_.trace().gpu_ops.push_back(op);
  }

  StringId op_name(const Event& event, GpuOpKind kind) {
    const auto known = op_names_.find(event.argument_or("name_id", -1));
    if (known != op_names_.end()) return known->second;
    if (kind == GpuOpKind::kCopy || kind == GpuOpKind::kSet) return 0;
    return assembler_.text(event.text("name"));
  }

  void read_transfer(const Event& event, GpuOp& op) {
    if (header_) {
      op.copy_kind = enum_of(event.argument("copy_kind"), CopyKind::kOther);
      op.source_memory = enum_of(event.argument("source_memory"), MemoryKind::kArray);
      op.target_memory = enum_of(event.argument("target_memory"), MemoryKind::kArray);
      return;
    }
    const std::string_view name = event.text("name");
    const std::size_t arrow = std::min(name.find("->"), name.size());
    if (op.kind == GpuOpKind::kCopy) {
      op.copy_kind = copy_kind_in(name.substr(0, name.find('(')));
      op.source_memory = memory_kind_in(name.substr(0, arrow));
      op.target_memory = memory_kind_in(name.substr(arrow));
    } else if (op.kind == GpuOpKind::kSet) {
      op.target_memory = memory_kind_in(name);
    }
  }

  void read_shape(const Event& event, GpuOp& op) {
    const Value* grid = event.find_argument("grid");
    const Value* block = event.find_argument("block");
    if (grid == nullptr || block == nullptr || grid->integers.size() != 3 ||
        block->integers.size() != 3) {
      return;
    }
    const std::uint32_t dynamic_bytes = id_32(event.argument_or("dynamic_shared_bytes", 0));
    const std::uint32_t shared_bytes = id_32(event.argument_or("shared memory", 0));
    op.launch_shape = assembler_.launch_shape(
        {.grid_x = id_32(grid->integers[0]),
         .grid_y = id_32(grid->integers[1]),
         .grid_z = id_32(grid->integers[2]),
         .block_x = id_32(block->integers[0]),
         .block_y = id_32(block->integers[1]),
         .block_z = id_32(block->integers[2]),
         .registers_per_thread = id_32(event.argument_or("registers per thread", 0)),
         // Kineto has only the sum.
         .static_shared_bytes = shared_bytes - std::min(shared_bytes, dynamic_bytes),
         .dynamic_shared_bytes = dynamic_bytes});
  }

  void read_attribution(const Event& event, GpuOp& op) {
    op.step_index = static_cast<std::int32_t>(event.argument_or("step_index", -1));
    op.micro_step_index = static_cast<std::int32_t>(event.argument_or("micro_step_index", -1));
    op.phase = enum_of(event.argument("phase"), Phase::kOther);
    op.attribution = enum_of(event.argument("attribution"), Attribution::kGraphNode);
    const std::string_view range = event.argument("range");
    if (!range.empty()) op.range = assembler_.range(range, event.argument("range_domain"));
  }

  void add_api(const Event& event) {
    const std::optional<Times> times = times_of(event);
    if (!times) return;
    Api api;
    api.start_ns = times->start_ns;
    api.end_ns = times->end_ns;
    api.name = assembler_.text(event.text("name"));
    api.correlation_id = id_32(event.argument_or("correlation", 0));
    api.thread = thread_of(event);
    api.return_value = static_cast<std::int32_t>(event.argument_or("return_value", 0));
    assembler_.trace().apis.push_back(api);
  }

  void add_sync(const Event& event) {
    const std::optional<Times> times = times_of(event);
    if (!times) return;
    std::string_view name = event.text("name");
    // Kineto's names for them.
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {"Event Sync", "event"},
        {"Stream Wait Event", "stream wait event"},
        {"Stream Sync", "stream"},
        {"Context Sync", "context"}};
    for (const auto& [theirs, ours] : kNames) {
      if (name == theirs) name = ours;
    }
    assembler_.trace().syncs.push_back(
        {.start_ns = times->start_ns,
         .end_ns = times->end_ns,
         .name = assembler_.text(name),
         .correlation_id = id_32(event.argument_or("correlation", 0)),
         .stream_id = id_32(event.argument_or("stream", 0))});
  }

  void begin(const Event& event) {
    const std::optional<Times> times = times_of(event);
    if (!times) return;
    key_.assign(event.text("pid")).append("/").append(event.text("tid"));
    begun_[key_].push_back({times->start_ns, std::string(event.text("name"))});
  }

  void end(const Event& event) {
    const std::optional<Times> times = times_of(event);
    key_.assign(event.text("pid")).append("/").append(event.text("tid"));
    const auto found = begun_.find(key_);
    if (!times || found == begun_.end() || found->second.empty()) return;
    const Begun begun = std::move(found->second.back());
    found->second.pop_back();
    if (times->start_ns < begun.start_ns) {
      assembler_.add_quality(quality::kEndBeforeStart);
    } else {
      add_range(event, begun.name, {begun.start_ns, times->start_ns});
    }
  }

  void add_metadata(const Event& event) {
    if (header_ || event.text("name") != "thread_name") return;
    key_.assign(event.text("pid")).append("/").append(event.text("tid"));
    thread_names_[key_] = event.argument("name");
  }

  std::uint32_t counter_track(std::string_view name, std::string_view unit) {
    const auto [it, is_new] = counter_tracks_.try_emplace(
        {std::string(name), std::string(unit)},
        static_cast<std::uint32_t>(assembler_.trace().counter_tracks.size()));
    if (is_new) {
      assembler_.trace().counter_tracks.push_back(
          {.name = assembler_.text(name), .unit = assembler_.text(unit)});
    }
    return it->second;
  }

  void add_counter(const Event& event) {
    std::int64_t time_ns = 0;
    if (!parse_time(event, time_ns)) return assembler_.add_quality(quality::kUnknownKind);
    const std::string_view name = event.text("name");
    event.for_each_argument([&](const std::string& series, const Value& value) {
      if (!value.is_number) return;
      // Ours have the unit for a series; others the name of one of several.
      const bool is_only = series == "value" || series == name;
      const std::uint32_t track =
          header_
              ? counter_track(name, series == "value" ? "" : series)
              : counter_track(is_only ? std::string(name) : fmt::format("{} {}", name, series), "");
      assembler_.trace().counter_samples.push_back(
          {.time_ns = time_ns, .value = std::strtod(value.text.c_str(), nullptr), .track = track});
    });
  }

  // torch.profiler(profile_memory=True): what its caching allocators did.
  void add_instant(const Event& event) {
    if (event.text("name") != "[memory]") return;
    constexpr std::int64_t kCudaDevice = 1;
    if (event.argument_or("Device Type", 0) != kCudaDevice) return;
    std::int64_t time_ns = 0;
    if (!parse_time(event, time_ns)) return assembler_.add_quality(quality::kUnknownKind);
    const std::int64_t bytes = event.argument_or("Bytes", 0);
    Alloc alloc;
    alloc.time_ns = time_ns;
    const std::string_view address = event.argument("Addr");
    std::from_chars(address.data(), address.data() + address.size(), alloc.address);
    alloc.bytes = bytes < 0 ? -std::max(bytes, -std::numeric_limits<std::int64_t>::max()) : bytes;
    alloc.action = bytes < 0 ? AllocAction::kFree : AllocAction::kAlloc;
    const std::int64_t id = event.argument_or("Device Id", 0);
    alloc.device = static_cast<std::uint8_t>(id >= 0 && id < kMaxDevices ? id : 0);
    assembler_.trace().allocs.push_back(alloc);
  }

  // Kineto wrote 0 where CUPTI had no time (kineto #109): far before all others.
  void drop_zero_times() {
    Trace& trace = assembler_.trace();
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    for (const GpuOp& op : trace.gpu_ops) {
      if (op.start_ns != 0) first_ns = std::min(first_ns, op.start_ns);
    }
    for (const Api& api : trace.apis) first_ns = std::min(first_ns, api.start_ns);
    constexpr std::int64_t kHourNs = 3600LL * 1'000'000'000;
    if (first_ns < kHourNs || first_ns == std::numeric_limits<std::int64_t>::max()) return;
    const std::size_t num_zero =
        std::erase_if(trace.gpu_ops, [](const GpuOp& op) { return op.start_ns == 0; });
    if (num_zero > 0) {
      assembler_.add_quality(quality::kZeroTimestamps, static_cast<std::int64_t>(num_zero));
    }
  }

  // Without a device the operators are what the time goes to: those that lie in no other.
  void take_operators() {
    if (has_device_) return;
    sort_stably(operators_, [](const Operator& left, const Operator& right) {
      return std::tie(left.thread, left.times.start_ns, right.times.end_ns) <
             std::tie(right.thread, right.times.start_ns, left.times.end_ns);
    });
    const Operator* outer = nullptr;
    for (const Operator& op : operators_) {
      const bool is_inner =
          outer != nullptr && outer->thread == op.thread && op.times.start_ns < outer->times.end_ns;
      if (is_inner) continue;
      outer = &op;
      GpuOp row;
      row.kind = GpuOpKind::kOperator;
      row.start_ns = op.times.start_ns;
      row.end_ns = op.times.end_ns;
      row.name = op.name;
      row.stream_id = op.thread;
      assembler_.trace().gpu_ops.push_back(row);
    }
  }

  // A file of ours whose steps somebody took out.
  void refuse_unknown_steps() {
    Trace& trace = assembler_.trace();
    for (GpuOp& op : trace.gpu_ops) {
      if (op.step_index < -1 || op.step_index >= std::ssize(trace.steps)) op.step_index = -1;
    }
  }

  void start_at_first_event() {
    Trace& trace = assembler_.trace();
    for (const auto& [key, thread_name] : thread_names_) {
      if (const auto row = assembler_.find_thread(key)) {
        trace.threads[*row].name = assembler_.text(thread_name);
      }
    }
    const std::int64_t first_ns = assembler_.first_ns();
    assembler_.shift(-first_ns);
    if (base_ns_ || first_ns > kEpochNs) {
      trace.info["start_unix_ns"] = base_ns_.value_or(0) + first_ns;
    }
  }

  std::string name_;
  TraceAssembler assembler_;
  bool header_ = false;
  bool has_device_ = false;
  std::int64_t offset_ns_ = 0;
  std::optional<std::int64_t> base_ns_;
  std::int64_t num_events_ = 0;
  std::string key_;
  std::unordered_map<std::int64_t, StringId> op_names_;
  std::unordered_map<std::string, std::vector<Begun>> begun_;
  std::unordered_map<std::string, std::string> thread_names_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> counter_tracks_;
  std::vector<Operator> operators_;
};

// Finds the events in the stream of tokens.
class Reader {
 public:
  Reader(TolerantJson& source, Importer& importer) : source_(source), importer_(importer) {}

  /// Reads to the end of the document, or as far as it can be read: kEnd, kCut or kError.
  /// `on_event` is called after each event.
  template <class OnEvent>
  TolerantJson::Token read(OnEvent on_event) {
    using Token = TolerantJson::Token;
    while (true) {
      switch (const Token token = source_.next()) {
        case Token::kKey: key_ = source_.text(); break;
        case Token::kString: put_string(); break;
        case Token::kInteger: put_integer(); break;
        case Token::kDecimal: put_number(); break;
        case Token::kWord: break;
        case Token::kBeginObject: begin_object(); break;
        case Token::kEndObject:
          if (end_object()) on_event();
          break;
        case Token::kBeginArray: begin_array(); break;
        case Token::kEndArray: stack_.pop_back(); break;
        case Token::kEnd:
        case Token::kCut:
        case Token::kError: return token;
      }
    }
  }

  bool is_between_events() const { return stack_.size() == 1 && stack_.back() == Place::kEvents; }
  bool has_events_list() const { return has_events_list_; }

 private:
  enum class Place : std::uint8_t {
    kRoot,
    kEvents,
    kEvent,
    kArguments,
    kArray,
    kDevices,
    kDevice,
    kOther
  };

  Place here() const { return stack_.empty() ? Place::kOther : stack_.back(); }

  // Where the value that comes now belongs; nullptr if nobody wants it.
  Value* target() {
    if (here() == Place::kEvent) return &event_.add_member(key_);
    if (here() == Place::kArguments) return &event_.add_argument(key_);
    return nullptr;
  }

  void put_string() {
    const Place place = here();
    if (place == Place::kRoot && key_ == "steplens") {
      importer_.read_header(std::string(source_.text()));
    }
    if (place == Place::kDevice && key_ == "name") device_name_ = source_.text();
    if (Value* value = target()) value->text = source_.text();
  }

  void put_number() {
    if (Value* value = target()) {
      value->text = source_.text();
      value->is_number = true;
    }
  }

  void put_integer() {
    const std::string_view text = source_.text();
    const auto parsed = [&] {
      std::int64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    const Place place = here();
    if (place == Place::kArray) {
      array_->integers.push_back(parsed());
    } else if (place == Place::kRoot && key_ == "baseTimeNanoseconds") {
      importer_.set_base_ns(parsed());
    } else if (place == Place::kDevice && key_ == "id") {
      device_id_ = parsed();
    } else {
      put_number();
    }
  }

  void begin_object() {
    Place place = Place::kOther;
    if (stack_.empty()) {
      place = Place::kRoot;
    } else if (here() == Place::kEvents) {
      place = Place::kEvent;
      event_.clear();
    } else if (here() == Place::kEvent && key_ == "args") {
      place = Place::kArguments;
    } else if (here() == Place::kDevices) {
      place = Place::kDevice;
      device_id_ = -1;
      device_name_.clear();
    }
    stack_.push_back(place);
  }

  // Whether it was an event.
  bool end_object() {
    const Place place = here();
    stack_.pop_back();
    if (place == Place::kDevice) importer_.add_device(device_id_, device_name_);
    if (place != Place::kEvent) return false;
    importer_.add(event_);
    return true;
  }

  void begin_array() {
    Place place = Place::kOther;
    if (stack_.empty() || (here() == Place::kRoot && key_ == "traceEvents")) {
      place = Place::kEvents;
      has_events_list_ = true;
    } else if (here() == Place::kRoot && key_ == "deviceProperties") {
      place = Place::kDevices;
    } else if (here() == Place::kArguments) {
      place = Place::kArray;
      array_ = &event_.add_argument(key_);
    }
    stack_.push_back(place);
  }

  TolerantJson& source_;
  Importer& importer_;
  std::vector<Place> stack_;
  std::string key_;
  Event event_;
  Value* array_ = nullptr;
  std::int64_t device_id_ = -1;
  std::string device_name_;
  bool has_events_list_ = false;
};

Trace import_from(TolerantJson& source, const std::string& name, const std::string& file_name,
                  std::int64_t num_bytes, const RowProgress& progress) {
  Importer importer(name);
  Reader reader(source, importer);
  const TolerantJson::Token end = reader.read([&] {
    if ((importer.num_events() & 0xFFF) == 0 && progress) {
      progress(source.num_read_bytes(), num_bytes);
    }
  });
  // The format lets a list of events end without its bracket.
  const bool is_cut = end == TolerantJson::Token::kCut && importer.num_events() > 0;
  if (end != TolerantJson::Token::kEnd && !is_cut) {
    throw ConfigError(fmt::format("{}: damaged JSON near byte {}: {}", name,
                                  source.num_read_bytes(),
                                  source.error().empty() ? "it ends here" : source.error()));
  }
  if (!reader.has_events_list()) {
    throw ConfigError(fmt::format("{}: JSON, but no trace: it has no traceEvents", name));
  }
  return importer.finish(is_cut && !reader.is_between_events(), source.num_mended(), file_name);
}

}  // namespace

bool parse_us(std::string_view text, std::int64_t& ns) {
  if (text.empty()) return false;
  if (text.find_first_of("eE") != std::string_view::npos) {
    const std::string copy(text);
    char* end = nullptr;
    const double us = std::strtod(copy.c_str(), &end);
    if (end != copy.c_str() + copy.size() || !(std::fabs(us) < 9e15)) return false;
    ns = std::llround(us * 1000);
    return true;
  }
  const bool is_negative = text.front() == '-';
  if (is_negative) text.remove_prefix(1);
  const std::size_t dot = std::min(text.find('.'), text.size());
  if (dot == 0) return false;
  std::int64_t value = 0;
  for (const char c : text.substr(0, dot)) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
    if (value >= std::numeric_limits<std::int64_t>::max() / 1000) return false;
  }
  const std::string_view decimals = text.substr(std::min(dot + 1, text.size()));
  for (const char c : decimals) {
    if (c < '0' || c > '9') return false;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    value = value * 10 + (i < decimals.size() ? decimals[i] - '0' : 0);
  }
  if (decimals.size() > 3 && decimals[3] >= '5') ++value;
  ns = is_negative ? -value : value;
  return true;
}

Trace import_chrome_json(const std::filesystem::path& path, const RowProgress& progress) {
  TolerantJson source(path);
  std::error_code ignored;
  const bool is_compressed = source.is_compressed();
  const auto num_bytes =
      is_compressed ? 0 : static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
  return import_from(source, path.string(), path.filename().string(), num_bytes, progress);
}

Trace import_chrome_text(std::string_view text, const std::string& name) {
  TolerantJson source(text);
  return import_from(source, name, name, std::ssize(text), {});
}

}  // namespace steplens
