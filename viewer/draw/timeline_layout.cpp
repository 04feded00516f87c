#include "viewer/draw/timeline_layout.h"

#include <algorithm>

#include <fmt/format.h>

namespace steplens {
namespace {

constexpr float kArmUnits = 26;
constexpr float kRowUnits = 17;
constexpr float kStreamUnits = 24;
constexpr float kCollapsedUnits = 17;
constexpr float kCounterUnits = 38;
constexpr float kGapUnits = 3;

std::string key_of(const TimelineItem& item, const TimelineSide& side) {
  if (item.kind == TimelineItem::Kind::kArm) return fmt::format("{}/", item.side);
  if (item.kind == TimelineItem::Kind::kMore) return fmt::format("{}/more", item.side);
  if (item.kind == TimelineItem::Kind::kCounter) {
    return fmt::format("{}/counter/{}", item.side, side.model->counters[item.index].name());
  }
  const Lane& lane = side.model->lanes[item.index];
  return fmt::format("{}/{}/{}/{}", item.side, static_cast<int>(lane.kind), lane.device, lane.id);
}

// With two arms counters and the host's lanes are folded away: what differs on the device is looked
// at first, and both arms are to fit on a screen.
bool is_collapsed_by_default(const TimelineItem& item, const std::vector<TimelineSide>& sides) {
  switch (item.kind) {
    case TimelineItem::Kind::kMore: return sides.size() > 1;
    case TimelineItem::Kind::kCounter:
      return sides.size() > 1 || sides[item.side].model->counters[item.index].points().empty();
    case TimelineItem::Kind::kLane:
      return sides.size() > 1 && is_of_host(sides[item.side].model->lanes[item.index].kind);
    case TimelineItem::Kind::kArm: break;
  }
  return false;
}

}  // namespace

void TimelineLayout::update(const Theme& theme, const std::vector<TimelineSide>& sides) {
  items_.clear();
  float y = 0;
  const auto add = [&](TimelineItem item) {
    item.top = y;
    y += item.height + theme.px(kGapUnits);
    items_.push_back(item);
  };
  for (std::size_t side = 0; side < sides.size(); ++side) {
    TimelineItem header{.kind = TimelineItem::Kind::kArm, .side = side};
    header.height = theme.px(kArmUnits);
    header.is_collapsed = toggled_.contains(key_of(header, sides[side]));
    add(header);
    const TraceModel* model = sides[side].model;
    if (model == nullptr) {
      y += theme.px(60);
      continue;
    }
    if (header.is_collapsed) continue;
    const auto is_collapsed = [&](const TimelineItem& item) {
      return is_collapsed_by_default(item, sides) != toggled_.contains(key_of(item, sides[side]));
    };
    // Lanes are in the order of their kinds: those of the host come last.
    const auto first_of_host = static_cast<std::size_t>(
        std::ranges::find_if(model->lanes, [](const Lane& lane) { return is_of_host(lane.kind); }) -
        model->lanes.begin());
    TimelineItem more{.kind = TimelineItem::Kind::kMore, .side = side};
    more.index = model->lanes.size() - first_of_host + model->counters.size();
    more.height = theme.px(kCollapsedUnits);
    more.is_collapsed = more.index > 0 && is_collapsed(more);
    for (std::size_t lane = 0; lane <= model->lanes.size(); ++lane) {
      if (lane == first_of_host && more.index > 0) add(more);
      if (lane == model->lanes.size()) break;
      if (lane >= first_of_host && more.is_collapsed) continue;
      TimelineItem item{.kind = TimelineItem::Kind::kLane, .side = side, .index = lane};
      item.is_collapsed = is_collapsed(item);
      const std::size_t num_rows = std::max<std::size_t>(1, model->lanes[lane].rows.size());
      item.num_rows = item.is_collapsed ? 1 : num_rows;
      const bool is_wide = has_operations(model->lanes[lane].kind) && num_rows == 1;
      item.row_height = theme.px(item.is_collapsed ? kCollapsedUnits
                                 : is_wide         ? kStreamUnits
                                                   : kRowUnits);
      item.height = item.row_height * static_cast<float>(item.num_rows);
      add(item);
    }
    for (std::size_t counter = 0; counter < model->counters.size(); ++counter) {
      if (more.is_collapsed) break;
      TimelineItem item{.kind = TimelineItem::Kind::kCounter, .side = side, .index = counter};
      item.is_collapsed = is_collapsed(item);
      item.num_rows = 1;
      item.row_height = item.height = theme.px(item.is_collapsed ? kCollapsedUnits : kCounterUnits);
      add(item);
    }
    y += theme.px(8);
  }
  height_ = y;
}

const TimelineItem* TimelineLayout::find_lane(std::size_t side, std::size_t lane) const {
  const auto it = std::ranges::find_if(items_, [&](const TimelineItem& item) {
    return item.kind == TimelineItem::Kind::kLane && item.side == side && item.index == lane;
  });
  if (it != items_.end()) return &*it;
  const auto more = std::ranges::find_if(items_, [&](const TimelineItem& item) {
    return item.kind == TimelineItem::Kind::kMore && item.side == side && item.is_collapsed;
  });
  return more == items_.end() ? nullptr : &*more;
}

const TimelineItem* TimelineLayout::at(float y) const {
  const auto it = std::ranges::find_if(items_, [&](const TimelineItem& item) {
    return y >= item.top && y < item.top + item.height;
  });
  return it == items_.end() ? nullptr : &*it;
}

float TimelineLayout::middle_of_row(const TimelineItem& item, std::size_t row) {
  if (item.num_rows == 0) return item.top + item.height / 2;
  const std::size_t shown = std::min(row, item.num_rows - 1);
  return item.top + (static_cast<float>(shown) + 0.5F) * item.row_height;
}

void TimelineLayout::toggle(const TimelineItem& item, const std::vector<TimelineSide>& sides) {
  const std::string key = key_of(item, sides[item.side]);
  if (toggled_.erase(key) == 0) toggled_.insert(key);
}

}  // namespace steplens
