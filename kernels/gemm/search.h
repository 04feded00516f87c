#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace steplens {

template <class Point>
struct TimedPoint {
  Point point{};
  double time_us = 0;       // HUGE_VAL: cannot run.
  bool is_offered = false;  // From the start, not found on the way.
  bool is_expanded = false;
};

/// A walk from setting to setting: `num_expansions` times it takes the fastest point so far whose
/// neighbours were not looked at, and times those that are new. `found` holds the points to begin
/// with; the new ones are appended, so that indices stay. Points compare by ==.
///
/// `neighbours(point)`: a vector of points. `time_us(point)`: its time, HUGE_VAL if it cannot run.
template <class Point, class Neighbours, class Time>
void widen_search(std::vector<TimedPoint<Point>>& found, int num_expansions,
                  const Neighbours& neighbours, const Time& time_us) {
  for (int i = 0; i < num_expansions; ++i) {
    TimedPoint<Point>* best = nullptr;
    for (TimedPoint<Point>& point : found) {
      if (point.is_expanded || point.time_us == HUGE_VAL) continue;
      if (best == nullptr || point.time_us < best->time_us) best = &point;
    }
    if (best == nullptr) return;
    best->is_expanded = true;
    for (const Point& point : neighbours(best->point)) {  // `best` may dangle from here on.
      if (std::ranges::find(found, point, &TimedPoint<Point>::point) != found.end()) continue;
      found.push_back({.point = point, .time_us = time_us(point)});
    }
  }
}

/// The first point, whatever its time, then the fastest `max_offered` others that were offered and
/// the fastest `max_found` that the walk found.
template <class Point>
std::vector<TimedPoint<Point>> finalists(std::vector<TimedPoint<Point>> points,
                                         std::size_t max_offered, std::size_t max_found) {
  if (points.empty()) return points;
  std::ranges::sort(points.begin() + 1, points.end(), {}, &TimedPoint<Point>::time_us);
  std::vector<TimedPoint<Point>> result{points.front()};
  for (std::size_t i = 1; i < points.size(); ++i) {
    std::size_t& left = points[i].is_offered ? max_offered : max_found;
    if (points[i].time_us == HUGE_VAL || left == 0) continue;
    --left;
    result.push_back(std::move(points[i]));
  }
  return result;
}

}  // namespace steplens
