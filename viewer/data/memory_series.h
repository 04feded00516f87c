#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/trace/trace.h"
#include "reports/memory/memory_account.h"
#include "viewer/data/counter_series.h"

namespace steplens {

/// Allocated bytes after every allocation and free of a trace, by owner, and the account at their
/// peak. For the memory panel; made of the tables of a TraceModel.
struct MemorySeries {
  std::vector<MemoryPoint> points;                // In order of time.
  MemoryUse use;                                  // With the account at the peak.
  std::vector<std::vector<std::uint32_t>> peaks;  // Index of the largest point of 16, of 256, ...

  /// Index of the point in force at a moment; nothing before the first.
  std::optional<std::size_t> at(std::int64_t time_ns) const;
  /// Index of the point with most bytes in force at any moment of [start_ns, end_ns).
  std::optional<std::size_t> largest_within(std::int64_t start_ns, std::int64_t end_ns) const;
};

/// Nothing where the trace has no allocations of the device.
std::optional<MemorySeries> memory_series(const Trace& tables, std::uint8_t device = 0);

/// Allocated bytes over time as a counter, by the signs of the actions alone: cheap, for a lane.
std::optional<CounterSeries> allocated_series(const Trace& tables);

}  // namespace steplens
