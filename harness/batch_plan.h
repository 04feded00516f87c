#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/memory_plan.h"
#include "harness/run_config.h"

namespace steplens {

/// What a bundle has measured of a model, as far as a prediction needs it.
struct MeasuredRate {
  RunConfig config;  // Of the arm with that rate.
  double positions_per_s = 0;
  std::string source;  // "runs/first, arm baseline"
};

/// One way to hold the global batch.
struct BatchChoice {
  RunConfig config;
  MemoryPlan memory;
  bool fits = false;
  /// Predicted; absent without a measured rate.
  std::optional<double> step_ns;
};

/// How to train with a global batch on a device of that much memory.
struct BatchPlan {
  std::int64_t memory_bytes = 0;
  std::vector<BatchChoice> choices;  // Every micro-batch and checkpoint setting, largest first.
  /// Row of `choices` to take: of those that fit the one with the shortest predicted step, or,
  /// without a rate, without checkpoints if possible and then the largest micro-batch. Absent:
  /// nothing fits.
  std::optional<std::size_t> best;
};

/// Every divisor of the global batch's share of a rank as micro-batch, with and without activation
/// checkpoints (only as the config says, if `holds_checkpoint`). ConfigError for a config that
/// cannot be: the global batch is what is held.
BatchPlan plan_batch(const RunConfig& config, std::int64_t memory_bytes, bool holds_checkpoint,
                     const std::vector<MeasuredRate>& rates);

/// Step time from the nearest measured config of the same model: its achieved FLOP/s (attention and
/// recomputation counted) applied to this config's FLOPs. Nearest: the same checkpoint setting
/// first, then the micro-batch closest in size. Absent without one on the same device, precision
/// and attention.
std::optional<double> predict_step_ns(const RunConfig& config,
                                      const std::vector<MeasuredRate>& rates);

nlohmann::json to_json(const BatchPlan& plan);

}  // namespace steplens
