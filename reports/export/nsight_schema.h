#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "harness/trace/trace.h"

/// Tables, columns and numbers of the SQLite files that `nsys export --type sqlite` writes, as far
/// as a Trace has something for them.
namespace steplens::nsight {

/// What the tables follow: Nsight Systems 2024.6.
inline constexpr std::string_view kSchemaVersion = "3.16.1";

/// Events of these NVTX domains stand for what Nsight Systems has no table for.
inline constexpr std::string_view kStepDomain = "steplens.steps";
inline constexpr std::string_view kOperatorDomain = "steplens.operators";

/// Names in META_DATA_EXPORT.
inline constexpr std::string_view kInfoKey = "STEPLENS_INFO";
inline constexpr std::string_view kQualityKey = "STEPLENS_QUALITY";

inline constexpr std::int64_t kRuntimeClass = 0;
inline constexpr std::int64_t kDriverClass = 1;

inline constexpr std::int64_t kMark = 34;
inline constexpr std::int64_t kPushPopRange = 59;
inline constexpr std::int64_t kStartEndRange = 60;
inline constexpr std::int64_t kDomainCreate = 75;

/// Of 64 bits: hardware, virtual machine, 24 of the process, 24 of the thread.
inline constexpr int kPidShift = 24;
inline constexpr std::int64_t kIdMask = 0xFFFFFF;
inline constexpr std::int64_t kVirtualMachine = std::int64_t{1} << 48;

constexpr std::int64_t global_tid(std::int64_t pid, std::int64_t tid) {
  return kVirtualMachine | (pid & kIdMask) << kPidShift | (tid & kIdMask);
}
constexpr std::int64_t pid_of(std::int64_t global_id) { return global_id >> kPidShift & kIdMask; }
constexpr std::int64_t tid_of(std::int64_t global_tid) { return global_tid & kIdMask; }

/// The thread of the steps. Linux has none of that number: its ids end at 2^22.
inline constexpr std::int64_t kStepsTid = 0xFFFFFE;

/// A row of an ENUM table.
struct EnumRow {
  std::int64_t id;
  std::string_view name;
  std::string_view label;
};

inline constexpr std::array kCopyKinds = {EnumRow{0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"},
                                          EnumRow{1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"},
                                          EnumRow{2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"},
                                          EnumRow{8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"},
                                          EnumRow{9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"},
                                          EnumRow{10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"}};

inline constexpr std::array kMemoryKinds = {
    EnumRow{0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"},
    EnumRow{1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"},
    EnumRow{2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"},
    EnumRow{3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"},
    EnumRow{4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"},
    EnumRow{5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"},
    EnumRow{6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"},
    EnumRow{7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"}};

inline constexpr std::array kSyncTypes = {
    EnumRow{0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"},
    EnumRow{1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"},
    EnumRow{2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"},
    EnumRow{3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"},
    EnumRow{4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"}};

inline constexpr std::array kEventTypes = {
    EnumRow{kMark, "NvtxMark", "NvtxMark"},
    EnumRow{kPushPopRange, "NvtxPushPopRange", "NvtxPushPopRange"},
    EnumRow{kStartEndRange, "NvtxStartEndRange", "NvtxStartEndRange"},
    EnumRow{kDomainCreate, "NvtxDomainCreate", "NvtxDomainCreate"}};

inline constexpr std::array kEventClasses = {
    EnumRow{kRuntimeClass, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"},
    EnumRow{kDriverClass, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"}};

inline constexpr std::array kMemoryActions = {
    EnumRow{0, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"},
    EnumRow{1, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"}};

std::int64_t id_of(CopyKind kind);
std::int64_t id_of(MemoryKind kind);
CopyKind copy_kind_of(std::int64_t id);
MemoryKind memory_kind_of(std::int64_t id);

/// Sync::name of an entry of kSyncTypes, and back.
std::string_view sync_name_of(std::int64_t id);
std::int64_t sync_type_of(std::string_view name);

}  // namespace steplens::nsight
