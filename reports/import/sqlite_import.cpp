#include "reports/import/sqlite_import.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/export/nsight_schema.h"
#include "reports/export/progress.h"
#include "reports/import/trace_assembler.h"
#include "reports/sqlite_database.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxDevices = 255;

std::uint32_t id_32(std::int64_t value) {
  return value < 0 ? 0 : static_cast<std::uint32_t>(value);
}

std::uint8_t device_index(std::int64_t id) {
  return static_cast<std::uint8_t>(id >= 0 && id < kMaxDevices ? id : 0);
}

class Importer {
 public:
  Importer(const std::filesystem::path& path, const RowProgress& progress)
      : path_(path),
        counter_(progress, 0),
        database_(path, SqliteDatabase::Mode::kRead, path.string()) {}

  Trace read() {
    if (!database_.has_table("CUPTI_ACTIVITY_KIND_KERNEL") && !database_.has_table("NVTX_EVENTS") &&
        !database_.has_table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")) {
      throw ConfigError(fmt::format(
          "{}: a database, but none of Nsight Systems: it has neither CUPTI_ACTIVITY_KIND_KERNEL "
          "nor NVTX_EVENTS (nsys export --type sqlite makes one)",
          path_.string()));
    }
    if (database_.has_table("StringIds")) {
      find_string_.emplace(database_.prepare("SELECT value FROM StringIds WHERE id = ?"));
    }
    read_meta_data();
    read_thread_names();
    read_kernels();
    read_copies();
    read_sets();
    read_graphs();
    read_calls();
    read_waits();
    read_memory();
    read_metrics();
    read_ranges();
    name_devices();
    const bool has_steps = !assembler_.trace().steps.empty();
    return assembler_.finish({.has_steps = has_steps, .has_quality = is_ours_});
  }

 private:
  // Calls visit(statement) for each row; a column that this file lacks is NULL.
  template <class Visit>
  void for_each_row(std::string_view table, std::vector<std::string> columns, Visit visit) {
    if (!database_.has_table(table)) return;
    const std::set<std::string> known = database_.columns_of(table);
    for (std::string& column : columns) {
      column = known.contains(column) ? fmt::format("\"{}\"", column) : "NULL";
    }
    SqliteStatement rows =
        database_.prepare(fmt::format("SELECT {} FROM {}", fmt::join(columns, ", "), table));
    while (rows.next()) {
      counter_.count();
      visit(rows);
    }
  }

  StringId string_of(std::optional<std::int64_t> id) {
    if (!id || !find_string_) return 0;
    const auto [it, is_new] = strings_.try_emplace(*id, 0);
    if (is_new && find_string_->bind(*id).next()) {
      it->second = assembler_.text(find_string_->text(0));
      while (find_string_->next()) {
      }
    }
    return it->second;
  }

  void read_meta_data() {
    Trace& trace = assembler_.trace();
    for_each_row("META_DATA_EXPORT", {"name", "value"}, [&](const SqliteStatement& row) {
      const bool is_info = row.text(0) == nsight::kInfoKey;
      if (!is_info && row.text(0) != nsight::kQualityKey) return;
      try {
        const json value = json::parse(row.text(1));
        if (is_info && value.is_object()) trace.info = value;
        if (!is_info) trace.quality = value.get<std::map<std::string, std::int64_t>>();
        is_ours_ = true;
      } catch (const json::exception& error) {
        throw ConfigError(fmt::format("{}: damaged: META_DATA_EXPORT {}: {}", path_.string(),
                                      row.text(0), error.what()));
      }
    });
    if (is_ours_) return;
    trace.info["run_kind"] = "import";
    trace.info["source_format"] = "nsight";
    trace.info["source_file"] = path_.filename().string();
    for_each_row("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&](const SqliteStatement& row) {
      if (const auto start_ns = row.integer(0)) {
        trace.info["start_unix_ns"] = *start_ns;
      }
    });
  }

  std::uint32_t thread_of(std::int64_t global_tid) {
    return assembler_.thread(std::to_string(global_tid),
                             static_cast<std::uint64_t>(nsight::tid_of(global_tid)));
  }

  // Those of ours come in the trace's order, so rows keep their number.
  void read_thread_names() {
    for_each_row("ThreadNames", {"globalTid", "nameId"}, [&](const SqliteStatement& row) {
      const StringId name = string_of(row.integer(1));
      const std::int64_t global_tid = row.integer_or(0, 0);
      if (is_ours_ && assembler_.trace().text(name) == "steps" &&
          nsight::tid_of(global_tid) == nsight::kStepsTid) {
        return;
      }
      thread_names_[global_tid] = name;
      if (is_ours_) assembler_.trace().threads[thread_of(global_tid)].name = name;
    });
  }

  // The ids of one process stay; those of further ones get numbers that none has.
  std::uint32_t correlation(std::optional<std::int64_t> id, std::int64_t global_id) {
    const std::int64_t pid = nsight::pid_of(global_id);
    if (!id || *id <= 0) return 0;
    if (!first_pid_) first_pid_ = pid;
    if (pid == *first_pid_) return id_32(*id);
    constexpr std::uint32_t kFirstOfOthers = 1U << 31;
    return correlations_
        .try_emplace({pid, *id}, kFirstOfOthers + static_cast<std::uint32_t>(correlations_.size()))
        .first->second;
  }

  // The columns that all tables of the device have; reads them from 0 on.
  static std::vector<std::string> with_gpu_columns(std::vector<std::string> columns) {
    static const std::vector<std::string> gpu_columns = {
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId"};
    columns.insert(columns.begin(), gpu_columns.begin(), gpu_columns.end());
    return columns;
  }
  static constexpr int kFirstOwnColumn = 7;

  // Adds an operation; nullptr, and counted, if its times cannot be.
  GpuOp* add_op(const SqliteStatement& row, GpuOpKind kind) {
    const std::int64_t start_ns = row.integer_or(0, 0);
    const std::int64_t end_ns = row.integer_or(1, 0);
    if (!is_ours_ && start_ns == 0 && end_ns == 0) {
      assembler_.add_quality(quality::kZeroTimestamps);
      return nullptr;
    }
    if (!is_ours_ && end_ns < start_ns) {
      assembler_.add_quality(quality::kEndBeforeStart);
      return nullptr;
    }
    GpuOp& op = assembler_.trace().gpu_ops.emplace_back();
    op.kind = kind;
    op.start_ns = start_ns;
    op.end_ns = end_ns;
    op.device = device_index(row.integer_or(2, 0));
    op.stream_id = id_32(row.integer_or(3, 0));
    op.correlation_id = correlation(row.integer(4), row.integer_or(5, 0));
    op.graph_node_id = std::bit_cast<std::uint64_t>(row.integer_or(6, 0));
    num_devices_ = std::max<std::size_t>(num_devices_, op.device + 1U);
    return &op;
  }

  void read_kernels() {
    const auto columns = with_gpu_columns(
        {"mangledName", "demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY",
         "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"});
    for_each_row("CUPTI_ACTIVITY_KIND_KERNEL", columns, [&](const SqliteStatement& row) {
      GpuOp* op = add_op(row, GpuOpKind::kKernel);
      if (op == nullptr) return;
      int column = kFirstOwnColumn;
      for (int i = 0; i < 3; ++i, ++column) {
        if (op->name == 0) op->name = string_of(row.integer(column));
      }
      const auto next = [&] { return id_32(row.integer_or(column++, 0)); };
      LaunchShape shape;
      shape.grid_x = next();
      shape.grid_y = next();
      shape.grid_z = next();
      shape.block_x = next();
      shape.block_y = next();
      shape.block_z = next();
      shape.registers_per_thread = next();
      shape.static_shared_bytes = next();
      shape.dynamic_shared_bytes = next();
      if (shape != LaunchShape()) op->launch_shape = assembler_.launch_shape(shape);
    });
  }

  void read_copies() {
    const auto columns = with_gpu_columns({"bytes", "copyKind", "srcKind", "dstKind"});
    for_each_row("CUPTI_ACTIVITY_KIND_MEMCPY", columns, [&](const SqliteStatement& row) {
      GpuOp* op = add_op(row, GpuOpKind::kCopy);
      if (op == nullptr) return;
      op->bytes = row.integer_or(kFirstOwnColumn, 0);
      op->copy_kind = nsight::copy_kind_of(row.integer_or(kFirstOwnColumn + 1, 0));
      op->source_memory = memory_kind(row.integer(kFirstOwnColumn + 2));
      op->target_memory = memory_kind(row.integer(kFirstOwnColumn + 3));
    });
  }

  void read_sets() {
    const auto columns = with_gpu_columns({"bytes", "memKind"});
    for_each_row("CUPTI_ACTIVITY_KIND_MEMSET", columns, [&](const SqliteStatement& row) {
      GpuOp* op = add_op(row, GpuOpKind::kSet);
      if (op == nullptr) return;
      op->bytes = row.integer_or(kFirstOwnColumn, 0);
      op->target_memory = memory_kind(row.integer(kFirstOwnColumn + 1));
    });
  }

  static MemoryKind memory_kind(std::optional<std::int64_t> id) {
    return id ? nsight::memory_kind_of(*id) : MemoryKind::kUnknown;
  }

  void read_graphs() {
    for_each_row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", with_gpu_columns({}),
                 [&](const SqliteStatement& row) { add_op(row, GpuOpKind::kGraph); });
  }

  void read_calls() {
    for_each_row("CUPTI_ACTIVITY_KIND_RUNTIME",
                 {"start", "end", "globalTid", "correlationId", "nameId", "returnValue"},
                 [&](const SqliteStatement& row) {
                   const std::int64_t global_tid = row.integer_or(2, 0);
                   Api api;
                   api.start_ns = row.integer_or(0, 0);
                   api.end_ns = row.integer_or(1, 0);
                   if (!has_thread(global_tid)) {
                     api.thread = kNoRow;
                   } else {
                     api.thread = thread_of(global_tid);
                   }
                   api.correlation_id = correlation(row.integer(3), global_tid);
                   api.name = string_of(row.integer(4));
                   api.return_value = static_cast<std::int32_t>(row.integer_or(5, 0));
                   assembler_.trace().apis.push_back(api);
                 });
  }

  // Thread 0 of ours is none.
  bool has_thread(std::int64_t global_tid) const {
    return !is_ours_ || nsight::tid_of(global_tid) != 0;
  }

  void read_waits() {
    for_each_row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                 {"start", "end", "streamId", "correlationId", "globalPid", "syncType"},
                 [&](const SqliteStatement& row) {
                   assembler_.trace().syncs.push_back(
                       {.start_ns = row.integer_or(0, 0),
                        .end_ns = row.integer_or(1, 0),
                        .name = assembler_.text(nsight::sync_name_of(row.integer_or(5, 0))),
                        .correlation_id = correlation(row.integer(3), row.integer_or(4, 0)),
                        .stream_id = id_32(row.integer_or(2, 0))});
                 });
  }

  void read_memory() {
    for_each_row("CUDA_GPU_MEMORY_USAGE_EVENTS",
                 {"start", "deviceId", "address", "bytes", "memoryOperationType", "memKind"},
                 [&](const SqliteStatement& row) {
                   if (memory_kind(row.integer(5)) != MemoryKind::kDevice) return;
                   Alloc alloc;
                   alloc.time_ns = row.integer_or(0, 0);
                   alloc.device = device_index(row.integer_or(1, 0));
                   alloc.address = std::bit_cast<std::uint64_t>(row.integer_or(2, 0));
                   alloc.bytes = std::max<std::int64_t>(0, row.integer_or(3, 0));
                   alloc.action = row.integer_or(4, 0) == 0 ? AllocAction::kSegmentAlloc
                                                            : AllocAction::kSegmentFree;
                   assembler_.trace().allocs.push_back(alloc);
                 });
  }

  void read_metrics() {
    Trace& trace = assembler_.trace();
    std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> tracks;
    for_each_row("TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"},
                 [&](const SqliteStatement& row) {
                   // "SMs Active [Throughput %]".
                   std::string_view name = row.text(2);
                   std::string_view unit;
                   const std::size_t bracket = name.rfind(" [");
                   if (bracket != std::string_view::npos && name.ends_with(']')) {
                     unit = name.substr(bracket + 2, name.size() - bracket - 3);
                     name = name.substr(0, bracket);
                   }
                   tracks[{row.integer_or(0, 0), row.integer_or(1, 0)}] =
                       static_cast<std::uint32_t>(trace.counter_tracks.size());
                   trace.counter_tracks.push_back(
                       {.name = assembler_.text(name), .unit = assembler_.text(unit)});
                 });
    for_each_row(
        "GPU_METRICS", {"timestamp", "typeId", "metricId", "value"},
        [&](const SqliteStatement& row) {
          const auto found = tracks.find({row.integer_or(1, 0), row.integer_or(2, 0)});
          if (found == tracks.end()) return;
          trace.counter_samples.push_back(
              {.time_ns = row.integer_or(0, 0), .value = row.real(3), .track = found->second});
        });
  }

  void read_ranges() {
    using Key = std::pair<std::int64_t, std::int64_t>;  // Process, domain.
    std::map<Key, std::string> domains;
    const std::vector<std::string> columns = {"start",     "end",    "eventType", "text",
                                              "globalTid", "textId", "domainId"};
    const auto name_of_row = [&](const SqliteStatement& row) {
      return row.text(3).empty() ? assembler_.trace().text(string_of(row.integer(5)))
                                 : std::string(row.text(3));
    };
    for_each_row("NVTX_EVENTS", columns, [&](const SqliteStatement& row) {
      if (row.integer_or(2, 0) != nsight::kDomainCreate) return;
      domains[{nsight::pid_of(row.integer_or(4, 0)), row.integer_or(6, 0)}] = name_of_row(row);
    });
    for_each_row("NVTX_EVENTS", columns, [&](const SqliteStatement& row) {
      const std::int64_t type = row.integer_or(2, 0);
      if (type != nsight::kPushPopRange && type != nsight::kStartEndRange) return;
      const std::int64_t start_ns = row.integer_or(0, 0);
      const std::optional<std::int64_t> end_ns = row.integer(1);
      if (!end_ns) return assembler_.add_quality(quality::kOpenRanges);
      if (*end_ns < start_ns && !is_ours_) {
        return assembler_.add_quality(quality::kEndBeforeStart);
      }
      const std::int64_t global_tid = row.integer_or(4, 0);
      const auto found = domains.find({nsight::pid_of(global_tid), row.integer_or(6, 0)});
      const std::string domain = found == domains.end() ? std::string() : found->second;
      const std::string name = name_of_row(row);
      if (domain == nsight::kStepDomain) {
        assembler_.trace().steps.push_back(
            {.start_ns = start_ns, .end_ns = *end_ns, .first_step_number = step_number_of(name)});
      } else if (domain == nsight::kOperatorDomain) {
        GpuOp& op = assembler_.trace().gpu_ops.emplace_back();
        op.kind = GpuOpKind::kOperator;
        op.start_ns = start_ns;
        op.end_ns = *end_ns;
        op.name = assembler_.text(name);
        op.stream_id = thread_of(global_tid);
      } else {
        assembler_.add_range(thread_of(global_tid), start_ns, *end_ns, name, domain);
      }
    });
  }

  void name_devices() {
    Trace& trace = assembler_.trace();
    for_each_row("TARGET_INFO_GPU", {"id", "name", "uuid"}, [&](const SqliteStatement& row) {
      const std::int64_t id = row.integer_or(0, -1);
      if (id < 0 || id >= kMaxDevices) return;
      if (std::ssize(trace.devices) <= id) trace.devices.resize(static_cast<std::size_t>(id) + 1);
      trace.devices[static_cast<std::size_t>(id)] = {.name = assembler_.text(row.text(1)),
                                                     .uuid = assembler_.text(row.text(2))};
    });
    if (!is_ours_ && trace.devices.size() < num_devices_) trace.devices.resize(num_devices_);
    for (const auto& [global_tid, name] : thread_names_) {
      if (const auto row = assembler_.find_thread(std::to_string(global_tid))) {
        trace.threads[*row].name = name;
      }
    }
  }

  std::filesystem::path path_;
  RowCounter counter_;
  SqliteDatabase database_;
  TraceAssembler assembler_;
  std::optional<SqliteStatement> find_string_;
  std::unordered_map<std::int64_t, StringId> strings_;  // By their id in the file.
  std::map<std::int64_t, StringId> thread_names_;       // By global id.
  std::optional<std::int64_t> first_pid_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> correlations_;
  std::size_t num_devices_ = 0;
  bool is_ours_ = false;
};

}  // namespace

Trace import_sqlite(const std::filesystem::path& path, const RowProgress& progress) {
  return Importer(path, progress).read();
}

}  // namespace steplens
