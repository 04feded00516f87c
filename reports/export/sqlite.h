#pragma once

#include <filesystem>

#include "harness/trace/trace.h"
#include "reports/export/progress.h"

namespace steplens {

/// Writes a trace as SQLite with the tables and columns of `nsys export --type sqlite`, so that
/// queries written for Nsight Systems run on it: StringIds, CUPTI_ACTIVITY_KIND_{KERNEL, MEMCPY,
/// MEMSET, GRAPH_TRACE, RUNTIME, SYNCHRONIZATION}, NVTX_EVENTS, CUDA_GPU_MEMORY_USAGE_EVENTS,
/// GPU_METRICS, TARGET_INFO_*, ThreadNames, PROCESSES, ENUM_*, META_DATA_EXPORT.
///
/// Times are those of the trace. globalTid is Nsight's: process and thread in 24 bits each. What a
/// trace lacks is NULL, or 0 where Nsight's column has no NULL (contextId, localMemory*). Steps are
/// NVTX ranges "ProfilerStep#N" of the domain "steplens.steps" on a thread of their own, operators
/// of a CPU those of "steplens.operators"; blocks of the caching allocator have no table.
/// ConfigError names path and cause; then `path` is what it was.
void write_sqlite(const std::filesystem::path& path, const Trace& trace,
                  const RowProgress& progress = {});

}  // namespace steplens
