#include "reports/results/step_swing.h"

#include <algorithm>
#include <numeric>

#include "reports/results/averages.h"

namespace steplens {
namespace {

constexpr std::size_t kMinBlocks = 3;
constexpr std::size_t kMinSteps = 8;
constexpr std::size_t kBlocksOfWhichOneMayDiffer = 6;
constexpr double kMinExcess = 0.05;  // Median of the blocks.
constexpr double kMinExcessInEach = 0.03;

// Each step / the block's median step - 1.
std::vector<double> excesses(const BlockRecord& block) {
  std::vector<double> steps(block.steps.step_wall_ns.begin(), block.steps.step_wall_ns.end());
  const double median = median_of(steps).value_or(0);
  if (median <= 0) return {};
  for (double& step : steps) step = step / median - 1;
  return steps;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::optional<StepSwing> find_step_swing(const std::vector<const BlockRecord*>& blocks) {
  if (blocks.size() < kMinBlocks) return std::nullopt;
  std::vector<std::vector<double>> rows;
  std::vector<double> means;
  for (const BlockRecord* block : blocks) {
    rows.push_back(excesses(*block));
    if (rows.back().size() < kMinSteps || rows.back().size() != rows.front().size()) {
      return std::nullopt;
    }
    means.push_back(mean(rows.back()));
  }
  StepSwing swing;
  std::vector<double> of_longest;
  for (std::size_t i = 1; i + 1 < rows.front().size(); ++i) {
    std::vector<double> column;
    column.reserve(rows.size());
    for (const std::vector<double>& row : rows) column.push_back(row[i]);
    const double excess = median_of(column).value_or(0);
    if (excess <= swing.excess_ratio) continue;
    swing = {.step_index = static_cast<std::int64_t>(i), .excess_ratio = excess};
    of_longest = std::move(column);
  }
  if (swing.excess_ratio < kMinExcess) return std::nullopt;
  std::ranges::sort(of_longest);
  const std::size_t may_differ = of_longest.size() >= kBlocksOfWhichOneMayDiffer ? 1 : 0;
  if (of_longest[may_differ] < kMinExcessInEach) return std::nullopt;
  swing.mean_excess_ratio = median_of(means).value_or(0);
  return swing;
}

}  // namespace steplens
