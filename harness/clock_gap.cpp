#include "harness/clock_gap.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace steplens {
namespace {

constexpr double kMaxClockGapRatio = 0.005;

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::optional<std::string> compare(std::int64_t steps_ns, std::int64_t other_ns,
                                   std::string_view other) {
  if (other_ns <= 0) return std::nullopt;
  const double change = static_cast<double>(steps_ns) / static_cast<double>(other_ns) - 1;
  if (std::abs(change) <= kMaxClockGapRatio) return std::nullopt;
  return fmt::format(
      "the sum of step_wall_ns, {} ns, differs by {:+.1f} % from {}, {} ns; allowed is {} %",
      steps_ns, 100 * change, other, other_ns, 100 * kMaxClockGapRatio);
}

}  // namespace

std::optional<std::string> clock_gap(const BlockRecord& block) {
  const std::int64_t steps_ns = sum(block.steps.step_wall_ns);
  if (auto gap = compare(steps_ns, block.measured_wall_ns, "measured_wall_ns")) return gap;
  return compare(steps_ns, sum(block.steps.step_gpu_ns), "the sum of step_gpu_ns");
}

}  // namespace steplens
