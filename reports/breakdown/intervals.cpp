#include "reports/breakdown/intervals.h"

namespace steplens {
namespace {

// The first interval that ends behind `time_ns`: the only one that can hold it.
std::span<const Interval>::iterator first_ending_after(std::span<const Interval> intervals,
                                                       std::int64_t time_ns) {
  return std::ranges::upper_bound(intervals, time_ns, {}, &Interval::end_ns);
}

}  // namespace

Intervals normalised(Intervals intervals) {
  std::erase_if(intervals, [](const Interval& interval) { return interval.is_empty(); });
  std::ranges::sort(intervals, {}, &Interval::start_ns);
  Intervals result;
  for (const Interval& interval : intervals) {
    if (!result.empty() && interval.start_ns <= result.back().end_ns) {
      result.back().end_ns = std::max(result.back().end_ns, interval.end_ns);
    } else {
      result.push_back(interval);
    }
  }
  return result;
}

std::int64_t total_ns(std::span<const Interval> intervals) {
  std::int64_t total_ns = 0;
  for (const Interval& interval : intervals) total_ns += interval.length_ns();
  return total_ns;
}

Intervals unite(std::span<const Interval> a, std::span<const Interval> b) {
  Intervals both(a.begin(), a.end());
  both.insert(both.end(), b.begin(), b.end());
  return normalised(std::move(both));
}

Intervals intersect(std::span<const Interval> a, std::span<const Interval> b) {
  Intervals result;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval common = {.start_ns = std::max(a[i].start_ns, b[j].start_ns),
                             .end_ns = std::min(a[i].end_ns, b[j].end_ns)};
    if (!common.is_empty()) result.push_back(common);
    if (a[i].end_ns < b[j].end_ns) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

Intervals subtract(std::span<const Interval> a, std::span<const Interval> b) {
  Intervals result;
  std::size_t j = 0;
  for (Interval rest : a) {
    while (j < b.size() && b[j].end_ns <= rest.start_ns) ++j;
    // The last of these may reach into the next interval of `a`, so `j` stays on it.
    for (std::size_t k = j; k < b.size() && b[k].start_ns < rest.end_ns; ++k) {
      j = k;
      if (rest.start_ns < b[k].start_ns) {
        result.push_back({.start_ns = rest.start_ns, .end_ns = b[k].start_ns});
      }
      rest.start_ns = std::max(rest.start_ns, b[k].end_ns);
    }
    if (!rest.is_empty()) result.push_back(rest);
  }
  return result;
}

Intervals clip(std::span<const Interval> intervals, Interval window) {
  Intervals result;
  for (auto it = first_ending_after(intervals, window.start_ns);
       it != intervals.end() && it->start_ns < window.end_ns; ++it) {
    const Interval part = {.start_ns = std::max(it->start_ns, window.start_ns),
                           .end_ns = std::min(it->end_ns, window.end_ns)};
    if (!part.is_empty()) result.push_back(part);
  }
  return result;
}

bool contains(std::span<const Interval> intervals, std::int64_t time_ns) {
  const auto it = first_ending_after(intervals, time_ns);
  return it != intervals.end() && it->start_ns <= time_ns;
}

}  // namespace steplens
