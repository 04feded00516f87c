#include "harness/step_counts.h"

#include <algorithm>
#include <numeric>

#include "harness/error.h"

namespace steplens {
namespace {

std::int64_t rounded_up(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t num_steps_before_capture(const RunConfig& config) {
  return uses_reducer(config) ? 11 : 5;
}

std::int64_t num_measured_steps_for(double step_wall_ns) {
  SL_CHECK(step_wall_ns > 0);
  constexpr double kBlockNs = 10e9;
  constexpr std::int64_t kMaxSteps = 30;
  constexpr std::int64_t kMinSteps = 5;
  if (step_wall_ns * kMinSteps >= kBlockNs) return kMinSteps;
  return std::min(kMaxSteps, static_cast<std::int64_t>(kBlockNs / step_wall_ns));
}

StepCounts rounded_counts(StepCounts baseline_counts, std::span<const Arm> arms) {
  SL_CHECK(!arms.empty());
  const std::int64_t baseline_rows = effective_global_batch_size(arms[0].config);
  std::int64_t common_rows = baseline_rows;
  for (const Arm& arm : arms) {
    if (arm.not_applicable_reason.empty()) {
      common_rows = std::lcm(common_rows, effective_global_batch_size(arm.config));
    }
  }
  const std::int64_t multiple = common_rows / baseline_rows;
  return {.num_warmup_steps = rounded_up(baseline_counts.num_warmup_steps, multiple),
          .num_measured_steps = rounded_up(baseline_counts.num_measured_steps, multiple)};
}

StepCounts counts_of(StepCounts baseline_counts, const RunConfig& baseline, const RunConfig& arm) {
  const std::int64_t baseline_rows = effective_global_batch_size(baseline);
  const std::int64_t arm_rows = effective_global_batch_size(arm);
  const auto share = [&](std::int64_t num_steps) {
    SL_CHECK(num_steps * baseline_rows % arm_rows == 0);
    return num_steps * baseline_rows / arm_rows;
  };
  return {.num_warmup_steps = share(baseline_counts.num_warmup_steps),
          .num_measured_steps = share(baseline_counts.num_measured_steps)};
}

std::int64_t in_baseline_steps(std::int64_t num_steps, const RunConfig& arm,
                               const RunConfig& baseline) {
  const std::int64_t rows = num_steps * effective_global_batch_size(arm);
  return rounded_up(rows, effective_global_batch_size(baseline)) /
         effective_global_batch_size(baseline);
}

}  // namespace steplens
