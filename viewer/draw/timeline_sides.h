#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viewer/data/trace_model.h"

namespace steplens {

/// One arm of the timeline.
struct TimelineSide {
  const TraceModel* model = nullptr;  // Null: not loaded, or it has none.
  std::string arm;
  std::string message;         // What stands there instead of lanes.
  std::int64_t origin_ns = 0;  // Zero of the axis on this trace's clock.
};

/// A slice of one of the arms.
struct SideSlice {
  std::size_t side = 0;
  SliceRef ref;
  bool operator==(const SideSlice&) const = default;
};

/// From the first step to the end of the last one of all arms, on the axis.
std::pair<double, double> whole_of(const std::vector<TimelineSide>& sides);

/// From the start of one step to the end of another, of the first arm that has steps.
std::optional<std::pair<double, double>> times_of_steps(const std::vector<TimelineSide>& sides,
                                                        int first, int last);

/// The largest number of steps of an arm; at least 1.
int num_steps_of(const std::vector<TimelineSide>& sides);

/// Lets the axis of each arm begin at a step. Returns by how much the first arm's zero moved.
double set_zero(std::vector<TimelineSide>& sides, int step);

/// Start and end of a slice on the axis.
std::pair<double, double> times_of(const std::vector<TimelineSide>& sides, const SideSlice& slice);

}  // namespace steplens
