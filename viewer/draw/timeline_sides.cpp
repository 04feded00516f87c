#include "viewer/draw/timeline_sides.h"

#include <algorithm>

namespace steplens {

std::pair<double, double> whole_of(const std::vector<TimelineSide>& sides) {
  std::optional<std::pair<double, double>> whole;
  for (const TimelineSide& side : sides) {
    if (side.model == nullptr) continue;
    const auto& bounds = side.model->step_bounds_ns;
    const bool has_steps = side.model->num_steps() > 0;
    const auto from =
        static_cast<double>((has_steps ? bounds.front() : side.model->start_ns) - side.origin_ns);
    const auto to =
        static_cast<double>((has_steps ? bounds.back() : side.model->end_ns) - side.origin_ns);
    whole = whole ? std::pair{std::min(whole->first, from), std::max(whole->second, to)}
                  : std::pair{from, to};
  }
  return whole.value_or(std::pair{0.0, 1e6});
}

std::optional<std::pair<double, double>> times_of_steps(const std::vector<TimelineSide>& sides,
                                                        int first, int last) {
  for (const TimelineSide& side : sides) {
    if (side.model == nullptr || side.model->num_steps() == 0) continue;
    const int max = side.model->num_steps() - 1;
    const auto at = [&](int i) {
      return static_cast<double>(side.model->step_bounds_ns[static_cast<std::size_t>(i)] -
                                 side.origin_ns);
    };
    return std::pair{at(std::clamp(first, 0, max)), at(std::clamp(last, 0, max) + 1)};
  }
  return std::nullopt;
}

int num_steps_of(const std::vector<TimelineSide>& sides) {
  int num_steps = 1;
  for (const TimelineSide& side : sides) {
    if (side.model != nullptr) num_steps = std::max(num_steps, side.model->num_steps());
  }
  return num_steps;
}

double set_zero(std::vector<TimelineSide>& sides, int step) {
  std::optional<double> moved_ns;
  for (TimelineSide& side : sides) {
    if (side.model == nullptr) continue;
    const std::int64_t origin_ns = side.model->origin_ns(step);
    if (!moved_ns) moved_ns = static_cast<double>(origin_ns - side.origin_ns);
    side.origin_ns = origin_ns;
  }
  return moved_ns.value_or(0);
}

std::pair<double, double> times_of(const std::vector<TimelineSide>& sides, const SideSlice& slice) {
  const TimelineSide& side = sides[slice.side];
  const Slice& at = side.model->slice(slice.ref);
  return {static_cast<double>(at.start_ns - side.origin_ns),
          static_cast<double>(at.end_ns - side.origin_ns)};
}

}  // namespace steplens
