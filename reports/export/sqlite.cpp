#include "reports/export/sqlite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/build_info.h"
#include "harness/error.h"
#include "reports/breakdown/kernel_names.h"
#include "reports/export/nsight_schema.h"
#include "reports/export/output_file.h"
#include "reports/export/utf8.h"
#include "reports/sqlite_database.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Beyond those of Linux.
constexpr std::int64_t kFirstMadeUpTid = 0x800000;

constexpr std::string_view kGpuColumns =
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER "
    "NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid "
    "INTEGER";

constexpr std::string_view kTables = R"(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER NOT NULL, duration INTEGER NOT NULL,
  startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT,
  busLocation TEXT, isDiscrete INTEGER, l2CacheSize INTEGER, totalMemory INTEGER,
  memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT,
  luid INTEGER, chipName TEXT, cuDevice INTEGER, computeMajor INTEGER, computeMinor INTEGER,
  smMajor INTEGER, smMinor INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL,
  uuid TEXT NOT NULL, numMultiprocessors INTEGER);
CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER,
  typeName TEXT NOT NULL, metricId INTEGER NOT NULL, metricName TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({gpu}, demangledName INTEGER NOT NULL,
  shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
  registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
  gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
  localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
  sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({gpu}, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL,
  deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER,
  srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER,
  graphNodeId INTEGER, virtualAddress INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET ({gpu}, value INTEGER NOT NULL, bytes INTEGER NOT NULL,
  graphNodeId INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({gpu}, graphId INTEGER NOT NULL,
  graphExecId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION ({gpu}, syncType INTEGER NOT NULL,
  eventId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL,
  pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL,
  memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER);
CREATE TABLE GPU_METRICS (timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL,
  metricId INTEGER NOT NULL, value INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
  endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,
  doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER,
  jsonText TEXT, binaryData TEXT);
)";

std::string with_gpu_columns(std::string_view sql) {
  constexpr std::string_view kMark = "{gpu}";
  std::string text(sql);
  for (std::size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at)) {
    text.replace(at, kMark.size(), kGpuColumns);
  }
  return text;
}

std::int64_t signed_of(std::uint64_t bits) { return std::bit_cast<std::int64_t>(bits); }

class Writer {
 public:
  Writer(const Trace& trace, SqliteDatabase& database, const RowProgress& progress)
      : trace_(trace),
        database_(database),
        counter_(progress, static_cast<std::int64_t>(trace.gpu_ops.size() + trace.apis.size() +
                                                     trace.range_instances.size())) {
    const auto pid = trace.info.find("pid");
    if (pid != trace.info.end() && pid->is_number_integer()) pid_ = pid->get<std::int64_t>();
    global_pid_ = nsight::global_tid(pid_, 0);
  }

  void write() {
    database_.run("BEGIN");
    database_.run(with_gpu_columns(kTables));
    write_enums();
    write_strings();
    write_threads();
    write_target();
    write_ops();
    write_apis();
    write_syncs();
    write_memory();
    write_metrics();
    write_ranges();
    write_meta_data();
    database_.run("COMMIT");
  }

 private:
  SqliteStatement insert_into(std::string_view table, std::string_view columns) {
    std::string marks = "?";
    for (const char c : columns) marks += c == ',' ? ", ?" : "";
    return database_.prepare(fmt::format("INSERT INTO {} ({}) VALUES ({})", table, columns, marks));
  }

  void write_enum(std::string_view table, std::span<const nsight::EnumRow> rows) {
    database_.run(fmt::format(
        "CREATE TABLE {} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)", table));
    SqliteStatement insert = insert_into(table, "id, name, label");
    for (const nsight::EnumRow& row : rows)
      insert.bind(row.id).bind(row.name).bind(row.label).insert();
  }

  void write_enums() {
    write_enum("ENUM_CUDA_MEMCPY_OPER", nsight::kCopyKinds);
    write_enum("ENUM_CUDA_MEM_KIND", nsight::kMemoryKinds);
    write_enum("ENUM_CUPTI_SYNC_TYPE", nsight::kSyncTypes);
    write_enum("ENUM_NSYS_EVENT_TYPE", nsight::kEventTypes);
    write_enum("ENUM_NSYS_EVENT_CLASS", nsight::kEventClasses);
    write_enum("ENUM_CUDA_DEV_MEM_EVENT_OPER", nsight::kMemoryActions);
  }

  void write_strings() {
    insert_string_ = std::make_unique<SqliteStatement>(insert_into("StringIds", "id, value"));
    for (const std::string& text : trace_.strings) {
      const std::string& valid = strings_.emplace_back(valid_utf8(text));
      const auto id = static_cast<std::int64_t>(strings_.size() - 1);
      ids_.try_emplace(valid, id);
      insert_string_->bind(id).bind(valid).insert();
    }
  }

  std::int64_t id_of_string(const std::string& text) {
    const auto [it, is_new] = ids_.try_emplace(
        valid_utf8(text), static_cast<std::int64_t>(trace_.strings.size()) + num_added_);
    if (is_new) {
      ++num_added_;
      insert_string_->bind(it->second).bind(it->first).insert();
    }
    return it->second;
  }

  void write_threads() {
    SqliteStatement insert = insert_into("ThreadNames", "nameId, priority, globalTid");
    std::set<std::int64_t> taken = {0, nsight::kStepsTid};
    for (std::size_t row = 0; row < trace_.threads.size(); ++row) {
      const ThreadInfo& thread = trace_.threads[row];
      auto tid = static_cast<std::int64_t>(thread.tid);
      if (thread.tid >= static_cast<std::uint64_t>(kFirstMadeUpTid) || taken.contains(tid)) {
        tid = kFirstMadeUpTid + static_cast<std::int64_t>(row);
      }
      taken.insert(tid);
      global_tids_.push_back(nsight::global_tid(pid_, tid));
      insert.bind(std::int64_t{thread.name}).bind_null().bind(global_tids_.back()).insert();
    }
    if (!trace_.steps.empty()) {
      insert.bind(id_of_string("steps"))
          .bind_null()
          .bind(nsight::global_tid(pid_, nsight::kStepsTid))
          .insert();
    }
  }

  std::int64_t global_tid_of(std::uint32_t thread) const {
    return thread < global_tids_.size() ? global_tids_[thread] : global_pid_;
  }

  void write_target() {
    SqliteStatement insert_gpu = insert_into("TARGET_INFO_GPU", "vmId, id, name, uuid, cuDevice");
    SqliteStatement insert_device =
        insert_into("TARGET_INFO_CUDA_DEVICE", "gpuId, cudaId, pid, uuid");
    for (std::size_t row = 0; row < trace_.devices.size(); ++row) {
      const auto id = static_cast<std::int64_t>(row);
      const std::string& name = strings_[trace_.devices[row].name];
      const std::string& uuid = strings_[trace_.devices[row].uuid];
      insert_gpu.bind(nsight::kVirtualMachine).bind(id).bind(name).bind(uuid).bind(id).insert();
      insert_device.bind(id).bind(id).bind(pid_).bind(uuid).insert();
    }
    insert_into("PROCESSES", "globalPid, pid, name")
        .bind(global_pid_)
        .bind(pid_)
        .bind("traced program")
        .insert();
    const auto start = trace_.info.find("start_unix_ns");
    if (start != trace_.info.end() && start->is_number_integer()) {
      insert_into("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
          .bind(start->get<std::int64_t>())
          .insert();
    }
  }

  // Binds the columns that all tables of the device begin with.
  SqliteStatement& bind_gpu_columns(SqliteStatement& insert, const GpuOp& op) const {
    insert.bind(op.start_ns).bind(op.end_ns).bind(std::int64_t{op.device}).bind(std::int64_t{0});
    insert.bind_null().bind(std::int64_t{op.stream_id});
    return bind_correlation(insert, op.correlation_id).bind(global_pid_);
  }

  static SqliteStatement& bind_correlation(SqliteStatement& insert, std::uint32_t id) {
    return id == 0 ? insert.bind_null() : insert.bind(std::int64_t{id});
  }

  static SqliteStatement& bind_node(SqliteStatement& insert, const GpuOp& op) {
    return op.graph_node_id == 0 ? insert.bind_null() : insert.bind(signed_of(op.graph_node_id));
  }

  void write_ops() {
    const std::string gpu =
        "start, end, deviceId, contextId, greenContextId, streamId, correlationId, globalPid, ";
    SqliteStatement kernel = insert_into(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        gpu +
            "demangledName, shortName, mangledName, registersPerThread, gridX, gridY, gridZ, "
            "blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, "
            "localMemoryPerThread, localMemoryTotal, gridId, graphNodeId");
    SqliteStatement copy = insert_into("CUPTI_ACTIVITY_KIND_MEMCPY",
                                       gpu + "bytes, copyKind, srcKind, dstKind, graphNodeId");
    SqliteStatement set =
        insert_into("CUPTI_ACTIVITY_KIND_MEMSET", gpu + "value, bytes, graphNodeId, memKind");
    SqliteStatement graph =
        insert_into("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", gpu + "graphId, graphExecId");
    for (const GpuOp& op : trace_.gpu_ops) {
      switch (op.kind) {
        case GpuOpKind::kKernel: write_kernel(kernel, op); break;
        case GpuOpKind::kCopy:
          bind_gpu_columns(copy, op)
              .bind(op.bytes)
              .bind(nsight::id_of(op.copy_kind))
              .bind(nsight::id_of(op.source_memory))
              .bind(nsight::id_of(op.target_memory));
          bind_node(copy, op).insert();
          break;
        case GpuOpKind::kSet:
          bind_gpu_columns(set, op).bind(std::int64_t{0}).bind(op.bytes);
          bind_node(set, op).bind(nsight::id_of(op.target_memory)).insert();
          break;
        case GpuOpKind::kGraph:
          bind_gpu_columns(graph, op).bind(std::int64_t{0}).bind(std::int64_t{0}).insert();
          break;
        case GpuOpKind::kOperator: break;  // With the ranges.
      }
      counter_.count();
    }
  }

  struct KernelNames {
    std::int64_t demangled = -1;
    std::int64_t base = 0;  // Without template arguments.
  };

  void write_kernel(SqliteStatement& insert, const GpuOp& op) {
    auto [it, is_new] = kernel_names_.try_emplace(op.name);
    if (is_new) {
      const std::string& recorded = trace_.text(op.name);
      const std::string display = kernel_display_name(recorded);
      const std::size_t bracket = display.find('<', 1);
      it->second = {.demangled = id_of_string(demangled(recorded)),
                    .base = id_of_string(display.substr(0, bracket))};
    }
    static constexpr LaunchShape kNoShape;
    const LaunchShape& shape =
        op.launch_shape == kNoRow ? kNoShape : trace_.launch_shapes[op.launch_shape];
    bind_gpu_columns(insert, op)
        .bind(it->second.demangled)
        .bind(it->second.base)
        .bind(std::int64_t{op.name});
    for (const std::uint32_t value :
         {shape.registers_per_thread, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x,
          shape.block_y, shape.block_z, shape.static_shared_bytes, shape.dynamic_shared_bytes, 0U,
          0U, 0U}) {
      insert.bind(std::int64_t{value});
    }
    bind_node(insert, op).insert();
  }

  void write_apis() {
    SqliteStatement insert =
        insert_into("CUPTI_ACTIVITY_KIND_RUNTIME",
                    "start, end, eventClass, globalTid, correlationId, nameId, returnValue");
    for (const Api& api : trace_.apis) {
      const std::string& name = trace_.text(api.name);
      const bool is_driver = name.starts_with("cu") && !name.starts_with("cuda");
      insert.bind(api.start_ns)
          .bind(api.end_ns)
          .bind(is_driver ? nsight::kDriverClass : nsight::kRuntimeClass)
          .bind(global_tid_of(api.thread));
      bind_correlation(insert, api.correlation_id)
          .bind(std::int64_t{api.name})
          .bind(std::int64_t{api.return_value})
          .insert();
      counter_.count();
    }
  }

  void write_syncs() {
    SqliteStatement insert = insert_into("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                         "start, end, deviceId, contextId, streamId, "
                                         "correlationId, globalPid, syncType, eventId");
    for (const Sync& sync : trace_.syncs) {
      insert.bind(sync.start_ns).bind(sync.end_ns).bind(std::int64_t{0}).bind(std::int64_t{0});
      insert.bind(std::int64_t{sync.stream_id});
      bind_correlation(insert, sync.correlation_id)
          .bind(global_pid_)
          .bind(nsight::sync_type_of(trace_.text(sync.name)))
          .bind(std::int64_t{0})
          .insert();
    }
  }

  // Nsight Systems sees what the driver hands out: the segments of the caching allocator.
  void write_memory() {
    SqliteStatement insert = insert_into("CUDA_GPU_MEMORY_USAGE_EVENTS",
                                         "start, globalPid, deviceId, contextId, address, pc, "
                                         "bytes, memKind, memoryOperationType");
    for (const Alloc& alloc : trace_.allocs) {
      const bool is_gain = alloc.action == AllocAction::kSegmentAlloc;
      if (!is_gain && alloc.action != AllocAction::kSegmentFree) continue;
      insert.bind(alloc.time_ns).bind(global_pid_).bind(std::int64_t{alloc.device});
      insert.bind(std::int64_t{0}).bind(signed_of(alloc.address)).bind(std::int64_t{0});
      insert.bind(alloc.bytes).bind(nsight::id_of(MemoryKind::kDevice));
      insert.bind(std::int64_t{is_gain ? 0 : 1}).insert();
    }
  }

  void write_metrics() {
    SqliteStatement insert_name =
        insert_into("TARGET_INFO_GPU_METRICS", "typeId, sourceId, typeName, metricId, metricName");
    for (std::size_t row = 0; row < trace_.counter_tracks.size(); ++row) {
      const CounterTrack& track = trace_.counter_tracks[row];
      const std::string name = fmt::format("{} [{}]", strings_[track.name], strings_[track.unit]);
      insert_name.bind(std::int64_t{0}).bind(std::int64_t{0}).bind("steplens");
      insert_name.bind(static_cast<std::int64_t>(row)).bind(name).insert();
    }
    SqliteStatement insert = insert_into("GPU_METRICS", "timestamp, typeId, metricId, value");
    for (const CounterSample& sample : trace_.counter_samples) {
      if (!std::isfinite(sample.value)) continue;  // SQLite would make NULL of it.
      insert.bind(sample.time_ns).bind(std::int64_t{0}).bind(std::int64_t{sample.track});
      insert.bind(sample.value).insert();
    }
  }

  void write_ranges() {
    SqliteStatement insert =
        insert_into("NVTX_EVENTS", "start, end, eventType, text, globalTid, textId, domainId");
    const std::int64_t first_tid = global_tids_.empty() ? global_pid_ : global_tids_.front();
    std::map<std::string, std::int64_t> domains = {{"", 0}};
    const auto domain_id = [&](const std::string& name) {
      const auto [it, is_new] =
          domains.try_emplace(name, static_cast<std::int64_t>(domains.size()));
      if (is_new) {
        insert.bind(std::int64_t{0}).bind_null().bind(nsight::kDomainCreate).bind(name);
        insert.bind(first_tid).bind_null().bind(it->second).insert();
      }
      return it->second;
    };
    const auto write_range = [&](std::int64_t start_ns, std::int64_t end_ns, std::string_view text,
                                 std::int64_t global_tid, std::int64_t text_id,
                                 std::int64_t domain) {
      // Both, as some queries read only one.
      insert.bind(start_ns).bind(end_ns).bind(nsight::kPushPopRange).bind(text);
      insert.bind(global_tid).bind(text_id).bind(domain).insert();
    };
    for (const RangeInstance& instance : trace_.range_instances) {
      const Range& range = trace_.ranges[instance.range];
      write_range(instance.start_ns, instance.end_ns, strings_[range.name],
                  global_tid_of(instance.thread), range.name, domain_id(strings_[range.domain]));
      counter_.count();
    }
    for (const GpuOp& op : trace_.gpu_ops) {
      if (op.kind != GpuOpKind::kOperator) continue;
      write_range(op.start_ns, op.end_ns, strings_[op.name], global_tid_of(op.stream_id), op.name,
                  domain_id(std::string(nsight::kOperatorDomain)));
    }
    for (const Step& step : trace_.steps) {
      const std::string name = fmt::format("ProfilerStep#{}", step.first_step_number);
      write_range(step.start_ns, step.end_ns, name, nsight::global_tid(pid_, nsight::kStepsTid),
                  id_of_string(name), domain_id(std::string(nsight::kStepDomain)));
    }
  }

  void write_meta_data() {
    SqliteStatement insert = insert_into("META_DATA_EXPORT", "name, value");
    const auto dumped = [](const nlohmann::json& json) {
      return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    insert.bind("EXPORT_PRODUCT_NAME").bind("Steplens").insert();
    insert.bind("EXPORT_PRODUCT_VERSION").bind(build_info().version).insert();
    insert.bind("EXPORT_SCHEMA_VERSION").bind(nsight::kSchemaVersion).insert();
    const std::string info = dumped(trace_.info);
    insert.bind(nsight::kInfoKey).bind(info).insert();
    const std::string quality = dumped(trace_.quality);
    insert.bind(nsight::kQualityKey).bind(quality).insert();
  }

  const Trace& trace_;
  SqliteDatabase& database_;
  RowCounter counter_;
  std::int64_t pid_ = 1;
  std::int64_t global_pid_ = 0;
  std::vector<std::string> strings_;  // As valid UTF-8, of each StringId.
  std::unordered_map<std::string, std::int64_t> ids_;
  std::int64_t num_added_ = 0;
  std::unique_ptr<SqliteStatement> insert_string_;
  std::vector<std::int64_t> global_tids_;  // Of each thread.
  std::unordered_map<StringId, KernelNames> kernel_names_;
};

}  // namespace

void write_sqlite(const fs::path& path, const Trace& trace, const RowProgress& progress) {
  TemporaryFile file(path);
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw ConfigError(fmt::format("{}: cannot write: it is a folder", path.string()));
  }
  fs::remove(file.name(), error);  // What a killed program of this number may have left.
  SqliteDatabase database(file.name(), SqliteDatabase::Mode::kCreate, path.string());
  Writer(trace, database, progress).write();
  database.close();
  file.publish();
}

}  // namespace steplens
