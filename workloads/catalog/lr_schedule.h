#pragma once

#include <cstdint>

#include "harness/run_config.h"

namespace steplens {

/// Learning rate of optimizer step `step_index` (from 0): linear warm-up over num_lr_warmup_steps,
/// reaching the peak at its last step, then a cosine down to the floor at num_lr_total_steps, and
/// the floor after that. Counts optimizer steps, never micro-steps.
double learning_rate_at(const RunConfig& config, std::int64_t step_index);

}  // namespace steplens
