#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "viewer/data/trace_model.h"
#include "viewer/draw/theme.h"
#include "viewer/draw/timeline_sides.h"

namespace steplens {

/// A line of the timeline: where it stands, from the top of everything.
struct TimelineItem {
  enum class Kind : std::uint8_t {
    kArm,
    kLane,
    kMore,  // Above the host's lanes and the counters: folds them away.
    kCounter,
  };
  Kind kind = Kind::kLane;
  std::size_t side = 0;
  std::size_t index = 0;  // Of the lane or counter; of kMore: how many are below.
  float top = 0;
  float height = 0;
  float row_height = 0;
  std::size_t num_rows = 0;  // That are shown.
  bool is_collapsed = false;
};

/// Which lanes are collapsed, and where each stands.
class TimelineLayout {
 public:
  void update(const Theme& theme, const std::vector<TimelineSide>& sides);

  const std::vector<TimelineItem>& items() const { return items_; }
  float height() const { return height_; }
  /// The item of a lane, or the one that it is folded into; nullptr if there is none.
  const TimelineItem* find_lane(std::size_t side, std::size_t lane) const;
  /// The item at `y`; nullptr if there is none.
  const TimelineItem* at(float y) const;
  /// Vertical middle of a row of a lane.
  static float middle_of_row(const TimelineItem& item, std::size_t row);

  void toggle(const TimelineItem& item, const std::vector<TimelineSide>& sides);

 private:
  // Lanes that are not as they are by default, by arm and name: a lane of another trace of the arm
  // stays as it was.
  std::set<std::string> toggled_;
  std::vector<TimelineItem> items_;
  float height_ = 0;
};

}  // namespace steplens
