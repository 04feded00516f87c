#include "profilers/trace/range_lookup.h"

#include <algorithm>

namespace steplens {

RangeLookup::RangeLookup(std::span<const RangeInstance> instances,
                         const std::vector<bool>& is_included)
    : instances_(instances),
      is_included_(is_included) {
  for (std::uint32_t row = 0; row < instances.size(); ++row) {
    if (is_included[row]) rows_[instances[row].thread].push_back(row);
  }
}

std::uint32_t RangeLookup::innermost(std::uint32_t thread, std::int64_t time_ns) const {
  const auto of_thread = rows_.find(thread);
  if (of_thread == rows_.end()) return kNoRow;
  const std::vector<std::uint32_t>& rows = of_thread->second;
  const auto after = std::ranges::upper_bound(
      rows, time_ns, {}, [&](std::uint32_t row) { return instances_[row].start_ns; });
  if (after == rows.begin()) return kNoRow;
  // The one that started last is the innermost, unless it ended: then one around it is.
  std::uint32_t row = *std::prev(after);
  while (row != kNoRow && (!is_included_[row] || instances_[row].end_ns <= time_ns)) {
    row = instances_[row].parent;
  }
  return row;
}

}  // namespace steplens
