#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace steplens {

/// A stretch of time along x. Times are nanoseconds since an origin that each arm has its own of:
/// where a step begins. Doubles: they are exact to the nanosecond for 100 days.
struct TimeAxis {
  double start_ns = 0;
  double ns_per_px = 1;
  float left = 0;
  float width = 1;

  double end_ns() const { return start_ns + ns_per_px * static_cast<double>(width); }
  float right() const { return left + width; }
  float x_of(double time_ns) const {
    return left + static_cast<float>((time_ns - start_ns) / ns_per_px);
  }
  double ns_of(float x) const { return start_ns + static_cast<double>(x - left) * ns_per_px; }

  /// Zooms by `factor` (> 1: closer) so that what is at `x` stays there.
  void zoom_at(float x, double factor);
  /// Shows [from, to) with a margin of `margin_ratio` of it on each side.
  void show(double from_ns, double to_ns, double margin_ratio = 0);
};

struct Tick {
  double time_ns = 0;
  std::string label;  // "1.25 ms"; empty of a minor one.
};

/// Ticks at 1, 2 or 5 times a power of ten, labels at least `min_gap_px` apart.
std::vector<Tick> ticks_of(const TimeAxis& axis, float min_gap_px);

}  // namespace steplens
