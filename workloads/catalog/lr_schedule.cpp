#include "workloads/catalog/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace steplens {

double learning_rate_at(const RunConfig& config, std::int64_t step_index) {
  const std::int64_t num_warmup = config.num_lr_warmup_steps;
  if (step_index < num_warmup) {
    return config.learning_rate * static_cast<double>(step_index + 1) /
           static_cast<double>(num_warmup);
  }
  const double span =
      static_cast<double>(std::max<std::int64_t>(1, config.num_lr_total_steps - num_warmup));
  const double progress = std::min(1.0, static_cast<double>(step_index - num_warmup) / span);
  const double floor = config.learning_rate * config.min_learning_rate_ratio;
  return floor +
         0.5 * (config.learning_rate - floor) * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace steplens
