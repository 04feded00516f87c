#include <algorithm>
#include <cmath>

#include "viewer/draw/timeline_canvas.h"

namespace steplens {

TimelinePick pick(const TimelineScene& scene, ImVec2 position) {
  TimelinePick picked;
  if (position.y < scene.lanes_top || position.y >= scene.high.y) return picked;
  const TimelineItem* item = scene.layout.at(position.y - scene.lanes_top + scene.scroll_y);
  if (item == nullptr) return picked;
  picked.item = item;
  if (position.x < scene.axis.left || item->kind == TimelineItem::Kind::kArm ||
      item->kind == TimelineItem::Kind::kMore) {
    picked.kind = TimelinePick::Kind::kHeader;
    return picked;
  }
  if (item->kind == TimelineItem::Kind::kCounter) {
    picked.kind = TimelinePick::Kind::kCounter;
    return picked;
  }
  const TimelineSide& side = scene.sides[item->side];
  const Lane& lane = side.model->lanes[item->index];
  const auto lane_row = static_cast<std::uint32_t>(
      std::max(0.0F, (position.y - scene.y_of(*item)) / item->row_height));
  if (lane_row >= lane.rows.size()) return picked;
  const SliceRow& row = lane.rows[lane_row];
  const auto time_at = [&](float x) {
    return side.origin_ns + static_cast<std::int64_t>(std::floor(scene.axis.ns_of(x)));
  };
  // Two pixels on each side: a narrow slice need not be hit exactly.
  const SliceSpan near = slices_within(row, time_at(position.x - 2), time_at(position.x + 2) + 1);
  const auto set_slice = [&](std::size_t index) {
    picked.slice = {
        item->side,
        {static_cast<std::uint32_t>(item->index), lane_row, static_cast<std::uint32_t>(index)}};
  };
  if (near.begin == near.end) {
    picked.kind = TimelinePick::Kind::kGap;
    picked.start_ns = near.begin > 0 ? row.slices()[near.begin - 1].end_ns : side.model->start_ns;
    picked.end_ns =
        near.begin < row.size() ? row.slices()[near.begin].start_ns : side.model->end_ns;
    return picked;
  }
  const std::size_t longest = row.longest_of(near.begin, near.end);
  set_slice(longest);
  const double width_px =
      static_cast<double>(row.slices()[longest].duration_ns()) / scene.axis.ns_per_px;
  if (near.end - near.begin <= 2 || width_px >= 3) {
    // The one under the cursor rather than a longer neighbour.
    const SliceSpan exact = slices_within(row, time_at(position.x), time_at(position.x) + 1);
    if (exact.begin < exact.end) set_slice(exact.begin);
    picked.kind = TimelinePick::Kind::kSlice;
    return picked;
  }
  picked.kind = TimelinePick::Kind::kStretch;
  picked.start_ns = time_at(position.x - 2);
  picked.end_ns = time_at(position.x + 2);
  return picked;
}

}  // namespace steplens
