#include "reports/import/chrome_rows.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/export/chrome_json.h"
#include "reports/export/op_names.h"
#include "reports/import/chrome_ops.h"

namespace steplens {
namespace {

using nlohmann::json;

// Times above it are since 1970, not since the start of the profiler: a year.
constexpr std::int64_t kEpochNs = 365LL * 24 * 3600 * 1'000'000'000;
// No event is further away: 126 years, so that differences of times fit into 64 bits.
constexpr std::int64_t kMaxTimeNs = 4'000'000'000'000'000'000;
constexpr std::int64_t kMaxDevices = 255;

// A damaged header may have 1e300 there, which is no integer.
std::int64_t integer_of(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  throw json::type_error::create(302, "an integer is missing", &value);
}
std::int64_t integer_at(const json& object, const char* key) { return integer_of(object.at(key)); }

}  // namespace

void ChromeRows::set_base_ns(std::int64_t base_ns) {
  if (is_time(base_ns)) base_ns_ = base_ns;
}

void ChromeRows::add_device(std::int64_t id, std::string_view device_name) {
  if (header_ || id < 0 || id >= kMaxDevices) return;
  device(id).name = assembler_.text(device_name);
}

// Of a file of ours: what the format has no place for.
void ChromeRows::read_header(const std::string& text) {
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

void ChromeRows::add(const ChromeEvent& event) {
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

Trace ChromeRows::finish(bool is_truncated, std::int64_t num_mended, const std::string& file_name) {
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

bool ChromeRows::is_time(std::int64_t time_ns) {
  return time_ns >= -kMaxTimeNs && time_ns <= kMaxTimeNs;
}

// When the event was, or began.
bool ChromeRows::parse_time(const ChromeEvent& event, std::int64_t& time_ns) const {
  std::int64_t ts_ns = 0;
  if (!parse_us(event.text("ts"), ts_ns) || !is_time(ts_ns)) return false;
  time_ns = ts_ns - offset_ns_;
  return is_time(time_ns);
}

// Absent, and counted, where the event has no usable times.
std::optional<ChromeRows::Times> ChromeRows::times_of(const ChromeEvent& event) {
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

std::uint32_t ChromeRows::thread_of(const ChromeEvent& event) {
  const std::string_view tid = event.text("tid");
  key_.assign(event.text("pid")).append("/").append(tid);
  return assembler_.thread(key_, static_cast<std::uint64_t>(event.integer("tid").value_or(0)));
}

DeviceInfo& ChromeRows::device(std::int64_t id) {
  std::vector<DeviceInfo>& devices = assembler_.trace().devices;
  if (std::ssize(devices) <= id) devices.resize(static_cast<std::size_t>(id) + 1);
  return devices[static_cast<std::size_t>(id)];
}

void ChromeRows::add_complete(const ChromeEvent& event) {
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

void ChromeRows::add_range(const ChromeEvent& event, std::string_view name, Times times) {
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
bool ChromeRows::add_step(const ChromeEvent& event, std::string_view name, Times times) {
  constexpr std::string_view kStep = "ProfilerStep#";
  if (!name.starts_with(kStep)) return false;
  const bool is_ours = header_ && event.argument_or("is_step", 0) != 0;
  if (header_ && !is_ours) return false;
  const std::int64_t number = step_number_of(name);
  if (number < 0) return false;
  std::vector<Step>& steps = assembler_.trace().steps;
  const Step step{.start_ns = times.start_ns, .end_ns = times.end_ns, .first_step_number = number};
  const bool is_known = std::ranges::any_of(
      steps, [&](const Step& other) { return other.first_step_number == number; });
  if (is_ours || !is_known) steps.push_back(step);
  if (!is_ours) assembler_.add_range(thread_of(event), times.start_ns, times.end_ns, "step");
  return true;
}

void ChromeRows::add_op(const ChromeEvent& event, GpuOpKind kind) {
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
  read_transfer(event, header_, op);
  if (const auto shape = launch_shape_in(event)) {
    op.launch_shape = assembler_.launch_shape(*shape);
  }
  if (header_) read_attribution(event, op);
  assembler_.trace().gpu_ops.push_back(op);
}

StringId ChromeRows::op_name(const ChromeEvent& event, GpuOpKind kind) {
  const auto known = op_names_.find(event.argument_or("name_id", -1));
  if (known != op_names_.end()) return known->second;
  if (kind == GpuOpKind::kCopy || kind == GpuOpKind::kSet) return 0;
  return assembler_.text(event.text("name"));
}

void ChromeRows::read_attribution(const ChromeEvent& event, GpuOp& op) {
  op.step_index = static_cast<std::int32_t>(event.argument_or("step_index", -1));
  op.micro_step_index = static_cast<std::int32_t>(event.argument_or("micro_step_index", -1));
  op.phase = enum_of(event.argument("phase"), Phase::kOther);
  op.attribution = enum_of(event.argument("attribution"), Attribution::kGraphNode);
  const std::string_view range = event.argument("range");
  if (!range.empty()) op.range = assembler_.range(range, event.argument("range_domain"));
}

void ChromeRows::add_api(const ChromeEvent& event) {
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

void ChromeRows::add_sync(const ChromeEvent& event) {
  const std::optional<Times> times = times_of(event);
  if (!times) return;
  std::string_view name = event.text("name");
  // Kineto's names for them.
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"ChromeEvent Sync", "event"},
      {"Stream Wait Event", "stream wait event"},
      {"Stream Sync", "stream"},
      {"Context Sync", "context"}};
  for (const auto& [theirs, ours] : kNames) {
    if (name == theirs) name = ours;
  }
  assembler_.trace().syncs.push_back({.start_ns = times->start_ns,
                                      .end_ns = times->end_ns,
                                      .name = assembler_.text(name),
                                      .correlation_id = id_32(event.argument_or("correlation", 0)),
                                      .stream_id = id_32(event.argument_or("stream", 0))});
}

void ChromeRows::begin(const ChromeEvent& event) {
  const std::optional<Times> times = times_of(event);
  if (!times) return;
  key_.assign(event.text("pid")).append("/").append(event.text("tid"));
  begun_[key_].push_back({times->start_ns, std::string(event.text("name"))});
}

void ChromeRows::end(const ChromeEvent& event) {
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

void ChromeRows::add_metadata(const ChromeEvent& event) {
  if (header_ || event.text("name") != "thread_name") return;
  key_.assign(event.text("pid")).append("/").append(event.text("tid"));
  thread_names_[key_] = event.argument("name");
}

std::uint32_t ChromeRows::counter_track(std::string_view name, std::string_view unit) {
  const auto [it, is_new] = counter_tracks_.try_emplace(
      {std::string(name), std::string(unit)},
      static_cast<std::uint32_t>(assembler_.trace().counter_tracks.size()));
  if (is_new) {
    assembler_.trace().counter_tracks.push_back(
        {.name = assembler_.text(name), .unit = assembler_.text(unit)});
  }
  return it->second;
}

void ChromeRows::add_counter(const ChromeEvent& event) {
  std::int64_t time_ns = 0;
  if (!parse_time(event, time_ns)) return assembler_.add_quality(quality::kUnknownKind);
  const std::string_view name = event.text("name");
  event.for_each_argument([&](const std::string& series, const ChromeValue& value) {
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
void ChromeRows::add_instant(const ChromeEvent& event) {
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
void ChromeRows::drop_zero_times() {
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
void ChromeRows::take_operators() {
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
void ChromeRows::refuse_unknown_steps() {
  Trace& trace = assembler_.trace();
  for (GpuOp& op : trace.gpu_ops) {
    if (op.step_index < -1 || op.step_index >= std::ssize(trace.steps)) op.step_index = -1;
  }
}

void ChromeRows::start_at_first_event() {
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

}  // namespace steplens
