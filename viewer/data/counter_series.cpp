#include "viewer/data/counter_series.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace steplens {
namespace {

constexpr std::size_t kFanout = 16;

CounterSeries::Extent united(CounterSeries::Extent a, CounterSeries::Extent b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}

}  // namespace

CounterSeries::CounterSeries(std::string name, std::string unit, std::string absent_reason,
                             std::vector<Point> points)
    : name_(std::move(name)),
      unit_(std::move(unit)),
      absent_reason_(std::move(absent_reason)),
      points_(std::move(points)) {
  std::erase_if(points_, [](const Point& point) { return !std::isfinite(point.value); });
  if (!std::ranges::is_sorted(points_, {}, &Point::time_ns)) {
    std::ranges::stable_sort(points_, {}, &Point::time_ns);
  }
  std::vector<Extent> extents;
  extents.reserve(points_.size());
  for (const Point& point : points_) extents.push_back({point.value, point.value});
  while (extents.size() > 1) {
    std::vector<Extent> above;
    above.reserve(extents.size() / kFanout + 1);
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (i % kFanout == 0) above.push_back(extents[i]);
      above.back() = united(above.back(), extents[i]);
    }
    levels_.push_back(above);
    extents = std::move(above);
  }
  if (!extents.empty()) extent_ = extents.front();
}

std::optional<double> CounterSeries::value_at(std::int64_t time_ns) const {
  const auto it = std::ranges::upper_bound(points_, time_ns, {}, &Point::time_ns);
  if (it == points_.begin()) return std::nullopt;
  return std::prev(it)->value;
}

std::optional<CounterSeries::Extent> CounterSeries::extent_within(std::int64_t start_ns,
                                                                  std::int64_t end_ns) const {
  // From the sample in force at the start on.
  auto begin = std::ranges::upper_bound(points_, start_ns, {}, &Point::time_ns);
  if (begin != points_.begin()) --begin;
  const auto end =
      std::lower_bound(begin, points_.end(), end_ns,
                       [](const Point& point, auto time) { return point.time_ns < time; });
  if (begin == end) return std::nullopt;
  return extent_of(static_cast<std::size_t>(begin - points_.begin()),
                   static_cast<std::size_t>(end - points_.begin()));
}

CounterSeries::Extent CounterSeries::extent_of(std::size_t begin, std::size_t end) const {
  Extent extent{points_[begin].value, points_[begin].value};
  while (begin < end) {
    std::size_t node_size = 1;
    const Extent* node = nullptr;
    for (const std::vector<Extent>& level : levels_) {
      const std::size_t size_here = node_size * kFanout;
      if (begin % size_here != 0 || begin + size_here > end) break;
      node = &level[begin / size_here];
      node_size = size_here;
    }
    const double value = points_[begin].value;
    extent = united(extent, node != nullptr ? *node : Extent{value, value});
    begin += node_size;
  }
  return extent;
}

std::vector<CounterSeries> counter_series(const Trace& trace) {
  std::vector<std::vector<CounterSeries::Point>> points(trace.counter_tracks.size());
  for (const CounterSample& sample : trace.counter_samples) {
    if (sample.track < points.size())
      points[sample.track].push_back({sample.time_ns, sample.value});
  }
  std::vector<CounterSeries> series;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const CounterTrack& track = trace.counter_tracks[i];
    series.emplace_back(trace.text(track.name), trace.text(track.unit),
                        trace.text(track.absent_reason), std::move(points[i]));
  }
  return series;
}

}  // namespace steplens
