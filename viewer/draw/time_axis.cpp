#include "viewer/draw/time_axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace steplens {
namespace {

// A pixel of less than 0.01 ns, or of more than 100 s, shows nothing.
constexpr double kMinNsPerPx = 0.01;
constexpr double kMaxNsPerPx = 1e11;

struct TimeUnit {
  double ns;
  const char* name;
};
constexpr std::array<TimeUnit, 4> kUnits = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};

}  // namespace

void TimeAxis::zoom_at(float x, double factor) {
  const double time_ns = ns_of(x);
  ns_per_px = std::clamp(ns_per_px / factor, kMinNsPerPx, kMaxNsPerPx);
  start_ns = time_ns - static_cast<double>(x - left) * ns_per_px;
}

void TimeAxis::show(double from_ns, double to_ns, double margin_ratio) {
  const double margin_ns = (to_ns - from_ns) * margin_ratio;
  const double length_ns = std::max(1.0, to_ns - from_ns + 2 * margin_ns);
  ns_per_px =
      std::clamp(length_ns / std::max(1.0, static_cast<double>(width)), kMinNsPerPx, kMaxNsPerPx);
  start_ns = from_ns - margin_ns;
}

std::vector<Tick> ticks_of(const TimeAxis& axis, float min_gap_px) {
  const double min_step_ns = axis.ns_per_px * static_cast<double>(min_gap_px);
  double step_ns = std::pow(10, std::floor(std::log10(min_step_ns)));
  int num_minor = 5;
  for (const auto& [factor, minor] : {std::pair{1.0, 5}, {2.0, 4}, {5.0, 5}, {10.0, 5}}) {
    if (step_ns * factor >= min_step_ns) {
      step_ns *= factor;
      num_minor = minor;
      break;
    }
  }
  const double largest_ns = std::max(std::abs(axis.start_ns), std::abs(axis.end_ns()));
  const auto unit = std::ranges::find_if(
      kUnits, [&](const TimeUnit& candidate) { return largest_ns >= candidate.ns; });
  const TimeUnit& shown = unit == kUnits.end() ? kUnits.back() : *unit;
  const int num_decimals =
      std::max(0, static_cast<int>(std::ceil(std::log10(shown.ns / step_ns) - 1e-9)));

  std::vector<Tick> ticks;
  const double minor_ns = step_ns / num_minor;
  const auto first = static_cast<std::int64_t>(std::ceil(axis.start_ns / minor_ns));
  const auto last = static_cast<std::int64_t>(std::floor(axis.end_ns() / minor_ns));
  for (std::int64_t i = first; i <= last; ++i) {
    Tick tick{.time_ns = static_cast<double>(i) * minor_ns};
    if (i % num_minor == 0) {
      tick.label =
          i == 0 ? std::string("0")
                 : fmt::format("{:.{}f} {}", tick.time_ns / shown.ns, num_decimals, shown.name);
    }
    ticks.push_back(std::move(tick));
  }
  return ticks;
}

}  // namespace steplens
