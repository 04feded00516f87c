#include "viewer/data/memory_series.h"

#include <algorithm>
#include <utility>

namespace steplens {
namespace {
constexpr std::size_t kFanout = 16;
}

std::optional<MemorySeries> memory_series(const Trace& tables, std::uint8_t device) {
  MemorySeries series;
  series.points = memory_timeline(tables, std::nullopt, device);
  if (series.points.empty()) return std::nullopt;
  std::ranges::stable_sort(series.points, {}, &MemoryPoint::time_ns);
  series.use = compute_memory_use(tables, device);
  std::vector<std::uint32_t> largest(series.points.size());
  for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = static_cast<std::uint32_t>(i);
  std::vector<std::int64_t> totals;
  totals.reserve(series.points.size());
  for (const MemoryPoint& point : series.points) totals.push_back(sum_of(point.by_owner));
  while (largest.size() > 1) {
    std::vector<std::uint32_t> above;
    for (std::size_t i = 0; i < largest.size(); ++i) {
      if (i % kFanout == 0) above.push_back(largest[i]);
      if (totals[largest[i]] > totals[above.back()]) above.back() = largest[i];
    }
    series.peaks.push_back(above);
    largest = std::move(above);
  }
  return series;
}

std::optional<std::size_t> MemorySeries::at(std::int64_t time_ns) const {
  const auto it = std::ranges::upper_bound(points, time_ns, {}, &MemoryPoint::time_ns);
  if (it == points.begin()) return std::nullopt;
  return static_cast<std::size_t>(it - points.begin()) - 1;
}

std::optional<std::size_t> MemorySeries::largest_within(std::int64_t start_ns,
                                                        std::int64_t end_ns) const {
  std::size_t begin = at(start_ns).value_or(0);
  const auto end = static_cast<std::size_t>(
      std::ranges::lower_bound(points, end_ns, {}, &MemoryPoint::time_ns) - points.begin());
  if (begin >= end) return std::nullopt;
  std::size_t best = begin;
  while (begin < end) {
    std::size_t node_size = 1;
    std::size_t candidate = begin;
    for (const std::vector<std::uint32_t>& level : peaks) {
      const std::size_t size_here = node_size * kFanout;
      if (begin % size_here != 0 || begin + size_here > end) break;
      candidate = level[begin / size_here];
      node_size = size_here;
    }
    if (sum_of(points[candidate].by_owner) > sum_of(points[best].by_owner)) best = candidate;
    begin += node_size;
  }
  return best;
}

std::optional<CounterSeries> allocated_series(const Trace& tables) {
  std::vector<CounterSeries::Point> points;
  std::int64_t bytes = 0;
  for (const Alloc& alloc : tables.allocs) {
    if (alloc.action == AllocAction::kAlloc) {
      bytes += alloc.bytes;
    } else if (alloc.action == AllocAction::kFree) {
      bytes = std::max<std::int64_t>(0, bytes - alloc.bytes);
    } else {
      continue;
    }
    points.push_back({alloc.time_ns, static_cast<double>(bytes)});
  }
  if (points.empty()) return std::nullopt;
  return CounterSeries("allocated", "B", "", std::move(points));
}

}  // namespace steplens
