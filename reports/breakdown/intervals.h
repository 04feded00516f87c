#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

/// Sets of moments, as half-open intervals of int64 nanoseconds. Integers only: nothing is rounded,
/// so unions never exceed the wall time and parts always add up.
namespace steplens {

/// From `start_ns` on, up to but without `end_ns`. Empty where the end is not behind the start.
struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  std::int64_t length_ns() const { return std::max<std::int64_t>(0, end_ns - start_ns); }
  bool is_empty() const { return end_ns <= start_ns; }
  bool operator==(const Interval&) const = default;
};

using Intervals = std::vector<Interval>;

/// The same moments as sorted intervals that neither overlap nor touch, none of them empty. All
/// functions below expect such sets and return them.
Intervals normalised(Intervals intervals);

std::int64_t total_ns(std::span<const Interval> intervals);

/// Moments of `a`, of `b`, or of both.
Intervals unite(std::span<const Interval> a, std::span<const Interval> b);

/// Moments in both.
Intervals intersect(std::span<const Interval> a, std::span<const Interval> b);

/// Moments of `a` that are not in `b`.
Intervals subtract(std::span<const Interval> a, std::span<const Interval> b);

/// Moments of `intervals` within `window`. Logarithmic in what lies outside the window.
Intervals clip(std::span<const Interval> intervals, Interval window);

/// Is there an interval that holds this moment?
bool contains(std::span<const Interval> intervals, std::int64_t time_ns);

}  // namespace steplens
