#include "reports/export/lanes.h"

#include <algorithm>
#include <tuple>

namespace steplens {
namespace {

// Ends of the slices of one lane that are still open, outermost first.
using OpenEnds = std::vector<std::int64_t>;

bool fits(OpenEnds& open, const LaneSlice& slice, Overlap overlap) {
  while (!open.empty() && open.back() <= slice.start_ns) open.pop_back();
  return open.empty() || (overlap == Overlap::kNested && slice.end_ns <= open.back());
}

}  // namespace

std::vector<std::uint32_t> assign_lanes(std::vector<LaneSlice>& slices, Overlap overlap) {
  std::ranges::sort(slices, [](const LaneSlice& left, const LaneSlice& right) {
    return std::tie(left.start_ns, right.end_ns, left.table, left.row) <
           std::tie(right.start_ns, left.end_ns, right.table, right.row);
  });
  std::vector<std::uint32_t> lane_of_slice;
  lane_of_slice.reserve(slices.size());
  std::vector<OpenEnds> lanes;
  for (const LaneSlice& slice : slices) {
    std::size_t lane = 0;
    while (lane < lanes.size() && !fits(lanes[lane], slice, overlap)) ++lane;
    if (lane == lanes.size()) lanes.emplace_back();
    lanes[lane].push_back(slice.end_ns);
    lane_of_slice.push_back(static_cast<std::uint32_t>(lane));
  }
  return lane_of_slice;
}

}  // namespace steplens
