#include "profilers/cupti/activity_decoder.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace steplens {
namespace {

std::int64_t ns(std::uint64_t time) { return static_cast<std::int64_t>(time); }

void count(RawRecords& records, std::string_view name, std::int64_t by = 1) {
  records.quality[std::string(name)] += by;
}

CopyKind copy_kind_of(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA: return CopyKind::kHostToDevice;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH: return CopyKind::kDeviceToHost;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA: return CopyKind::kDeviceToDevice;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return CopyKind::kHostToHost;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return CopyKind::kPeerToPeer;
    default: return CopyKind::kOther;
  }
}

MemoryKind memory_kind_of(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE: return MemoryKind::kPageable;
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED: return MemoryKind::kPinned;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC: return MemoryKind::kDevice;
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC: return MemoryKind::kManaged;
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY: return MemoryKind::kArray;
    default: return MemoryKind::kUnknown;
  }
}

const char* sync_name_of(CUpti_ActivitySynchronizationType type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE: return "event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT: return "stream wait event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE: return "stream";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE: return "context";
    default: return "unknown";
  }
}

const char* overhead_name_of(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER: return "driver compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH: return "buffer flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION: return "instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE: return "resource";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST: return "buffer request";
    case CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT: return "unified memory set-up";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING: return "module loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING: return "lazy function loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL: return "command buffer full";
    default: return "other";
  }
}

// What the driver does in any run, traced or not: a full command buffer is a host that is ahead.
bool is_of_driver(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL: return true;
    default: return false;
  }
}

// CUPTI promises alignment of 8 only: records are copied out before their fields are read.
template <typename Record>
Record copy_of(const CUpti_Activity* activity) {
  Record record;
  std::memcpy(&record, activity, sizeof(record));
  return record;
}

}  // namespace

ActivityDecoder::ActivityDecoder(const CuptiApi& cupti, StringTable& names)
    : cupti_(cupti),
      names_(names) {}

void ActivityDecoder::decode(std::uint8_t* buffer, std::size_t valid_bytes,
                             std::int64_t not_before_ns) {
  not_before_ns_ = not_before_ns;
  CUpti_Activity* activity = nullptr;
  while (true) {
    const CUptiResult result = cupti_.next_record(buffer, valid_bytes, &activity);
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) return;
    if (result != CUPTI_SUCCESS) {
      // What follows in the buffer cannot be found: how much it was is unknown.
      count(records_, quality::kUnknownKind);
      return;
    }
    ++num_decoded_;
    switch (activity->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        add_kernel(copy_of<CUpti_ActivityKernel10>(activity));
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto copy = copy_of<CUpti_ActivityMemcpy6>(activity);
        add_copy(copy, copy_kind_of(copy.copyKind));
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        add_copy(copy_of<CUpti_ActivityMemcpyPtoP4>(activity), CopyKind::kPeerToPeer);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET: add_set(copy_of<CUpti_ActivityMemset4>(activity)); break;
      case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        add_graph(copy_of<CUpti_ActivityGraphTrace2>(activity));
        break;
      case CUPTI_ACTIVITY_KIND_RUNTIME:
        add_api(copy_of<CUpti_ActivityAPI>(activity), /*is_driver=*/false);
        break;
      case CUPTI_ACTIVITY_KIND_DRIVER:
        add_api(copy_of<CUpti_ActivityAPI>(activity), /*is_driver=*/true);
        break;
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        add_sync(copy_of<CUpti_ActivitySynchronization2>(activity));
        break;
      case CUPTI_ACTIVITY_KIND_OVERHEAD: {
        const auto overhead = copy_of<CUpti_ActivityOverhead3>(activity);
        add_overhead(overhead);
        std::free(overhead.overheadData);  // NOLINT: CUPTI leaves it to its client.
        break;
      }
      case CUPTI_ACTIVITY_KIND_DEVICE: add_device(copy_of<CUpti_ActivityDevice5>(activity)); break;
      default: count(records_, quality::kUnknownKind);
    }
  }
}

// Whether the window has it; counts what is broken.
bool ActivityDecoder::is_wanted(std::uint64_t start, std::uint64_t end) {
  // What is known to be of before the window is not missed.
  const std::int64_t latest_ns = std::max(ns(start), ns(end));
  if (latest_ns != 0 && latest_ns < not_before_ns_) return false;
  if (start == 0 || end == 0) {
    count(records_, quality::kZeroTimestamps);
    return false;
  }
  if (end < start) {
    count(records_, quality::kEndBeforeStart);
    return false;
  }
  return true;
}

std::uint32_t ActivityDecoder::shape_row(const LaunchShape& shape) {
  const std::vector<std::uint32_t> key = {shape.grid_x,
                                          shape.grid_y,
                                          shape.grid_z,
                                          shape.block_x,
                                          shape.block_y,
                                          shape.block_z,
                                          shape.registers_per_thread,
                                          shape.static_shared_bytes,
                                          shape.dynamic_shared_bytes};
  const auto [it, is_new] =
      shape_rows_.emplace(key, static_cast<std::uint32_t>(records_.launch_shapes.size()));
  if (is_new) records_.launch_shapes.push_back(shape);
  return it->second;
}

void ActivityDecoder::add_kernel(const CUpti_ActivityKernel10& record) {
  if (!is_wanted(record.start, record.end)) return;
  const auto unsigned_of = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
  const char* name = record.name == nullptr ? "" : record.name;
  auto it = kernel_names_.find(std::string_view(name));
  if (it == kernel_names_.end()) it = kernel_names_.emplace(name, names_.id_of(name)).first;
  records_.gpu_ops.push_back(
      {.start_ns = ns(record.start),
       .end_ns = ns(record.end),
       .graph_node_id = record.graphNodeId,
       .name = it->second,
       .correlation_id = record.correlationId,
       .stream_id = record.streamId,
       .launch_shape = shape_row({.grid_x = unsigned_of(record.gridX),
                                  .grid_y = unsigned_of(record.gridY),
                                  .grid_z = unsigned_of(record.gridZ),
                                  .block_x = unsigned_of(record.blockX),
                                  .block_y = unsigned_of(record.blockY),
                                  .block_z = unsigned_of(record.blockZ),
                                  .registers_per_thread = record.registersPerThread,
                                  .static_shared_bytes = unsigned_of(record.staticSharedMemory),
                                  .dynamic_shared_bytes = unsigned_of(record.dynamicSharedMemory)}),
       .kind = GpuOpKind::kKernel,
       .device = static_cast<std::uint8_t>(record.deviceId)});
}

void ActivityDecoder::add_graph(const CUpti_ActivityGraphTrace2& record) {
  if (!is_wanted(record.start, record.end)) return;
  records_.gpu_ops.push_back({.start_ns = ns(record.start),
                              .end_ns = ns(record.end),
                              .name = names_.id_of(fmt::format("graph {}", record.graphId)),
                              .correlation_id = record.correlationId,
                              .stream_id = record.streamId,
                              .kind = GpuOpKind::kGraph,
                              .device = static_cast<std::uint8_t>(record.deviceId)});
}

template <typename Record>
void ActivityDecoder::add_copy(const Record& record, CopyKind kind) {
  if (!is_wanted(record.start, record.end)) return;
  records_.gpu_ops.push_back({.start_ns = ns(record.start),
                              .end_ns = ns(record.end),
                              .bytes = static_cast<std::int64_t>(record.bytes),
                              .graph_node_id = record.graphNodeId,
                              .name = names_.id_of(fmt::format("memcpy {}", name_of(kind))),
                              .correlation_id = record.correlationId,
                              .stream_id = record.streamId,
                              .kind = GpuOpKind::kCopy,
                              .copy_kind = kind,
                              .source_memory = memory_kind_of(record.srcKind),
                              .target_memory = memory_kind_of(record.dstKind),
                              .device = static_cast<std::uint8_t>(record.deviceId)});
}

void ActivityDecoder::add_set(const CUpti_ActivityMemset4& record) {
  if (!is_wanted(record.start, record.end)) return;
  records_.gpu_ops.push_back(
      {.start_ns = ns(record.start),
       .end_ns = ns(record.end),
       .bytes = static_cast<std::int64_t>(record.bytes),
       .graph_node_id = record.graphNodeId,
       .name = names_.id_of("memset"),
       .correlation_id = record.correlationId,
       .stream_id = record.streamId,
       .kind = GpuOpKind::kSet,
       .target_memory = memory_kind_of(static_cast<std::uint8_t>(record.memoryKind)),
       .device = static_cast<std::uint8_t>(record.deviceId)});
}

StringId ActivityDecoder::api_name(bool is_driver, CUpti_CallbackId cbid) {
  const std::uint64_t key = (std::uint64_t{is_driver} << 32) | cbid;
  const auto it = api_names_.find(key);
  if (it != api_names_.end()) return it->second;
  const CUpti_CallbackDomain domain =
      is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
  const char* text = nullptr;
  std::string name;
  if (cupti_.callback_name(domain, cbid, &text) == CUPTI_SUCCESS && text != nullptr) {
    name = text;
    // "cudaLaunchKernel_v7000": the version of the entry point says nothing to people.
    const std::size_t version = name.rfind("_v");
    if (version != std::string::npos && version + 2 < name.size() &&
        name.find_first_not_of("0123456789", version + 2) == std::string::npos) {
      name.resize(version);
    }
  } else {
    name = fmt::format("{} call {}", is_driver ? "driver" : "runtime", cbid);
  }
  return api_names_.emplace(key, names_.id_of(name)).first->second;
}

void ActivityDecoder::add_api(const CUpti_ActivityAPI& record, bool is_driver) {
  if (!is_wanted(record.start, record.end)) return;
  records_.apis.push_back({.api = {.start_ns = ns(record.start),
                                   .end_ns = ns(record.end),
                                   .name = api_name(is_driver, record.cbid),
                                   .correlation_id = record.correlationId,
                                   .return_value = static_cast<std::int32_t>(record.returnValue)},
                           .tid = record.threadId,
                           .is_driver = is_driver});
}

void ActivityDecoder::add_sync(const CUpti_ActivitySynchronization2& record) {
  if (!is_wanted(record.start, record.end)) return;
  records_.syncs.push_back({.start_ns = ns(record.start),
                            .end_ns = ns(record.end),
                            .name = names_.id_of(sync_name_of(record.type)),
                            .correlation_id = record.correlationId,
                            .stream_id = record.streamId});
}

void ActivityDecoder::add_overhead(const CUpti_ActivityOverhead3& record) {
  if (!is_wanted(record.start, record.end)) return;
  records_.overheads.push_back({.start_ns = ns(record.start),
                                .end_ns = ns(record.end),
                                .name = names_.id_of(overhead_name_of(record.overheadKind)),
                                .is_of_driver = is_of_driver(record.overheadKind)});
}

void ActivityDecoder::add_device(const CUpti_ActivityDevice5& record) {
  std::string uuid = "GPU-";
  for (std::size_t i = 0; i < sizeof(record.uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += fmt::format("{:02x}", static_cast<std::uint8_t>(record.uuid.bytes[i]));
  }
  records_.devices[record.id] = {names_.id_of(record.name == nullptr ? "" : record.name),
                                 names_.id_of(uuid)};
}

}  // namespace steplens
