#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// A quantity over time with a pyramid of minima and maxima, so that no peak is lost however many
/// samples a pixel has. A sample holds until the next one.
class CounterSeries {
 public:
  struct Point {
    std::int64_t time_ns = 0;
    double value = 0;
  };
  struct Extent {
    double min = 0;
    double max = 0;
    bool operator==(const Extent&) const = default;
  };

  CounterSeries(std::string name, std::string unit, std::string absent_reason,
                std::vector<Point> points);

  const std::string& name() const { return name_; }
  const std::string& unit() const { return unit_; }
  /// Why there are no samples.
  const std::string& absent_reason() const { return absent_reason_; }
  const std::vector<Point>& points() const { return points_; }
  /// Of all samples; zeros without any.
  Extent extent() const { return extent_; }

  /// The value in force; nothing before the first sample.
  std::optional<double> value_at(std::int64_t time_ns) const;
  /// Smallest and largest value in force at any moment of [start_ns, end_ns). Nothing where it ends
  /// before the first sample. Logarithmic.
  std::optional<Extent> extent_within(std::int64_t start_ns, std::int64_t end_ns) const;

 private:
  Extent extent_of(std::size_t begin, std::size_t end) const;

  std::string name_, unit_, absent_reason_;
  std::vector<Point> points_;
  std::vector<std::vector<Extent>> levels_;
  Extent extent_;
};

/// One a track, in their order.
std::vector<CounterSeries> counter_series(const Trace& trace);

}  // namespace steplens
