#pragma once

#include <cstdint>
#include <memory>

#include "harness/run_config.h"
#include "workloads/train_step.h"

namespace steplens {

/// Runs steps of a TrainStep, eagerly or as a captured graph.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  virtual void run(const DeviceStep& step) = 0;
  /// Duration of capture and instantiation; 0 if nothing was captured yet, or ever.
  virtual std::int64_t compile_ns() const = 0;
  /// Bytes of the graph's private memory that the allocator's peak does not show, or 0.
  virtual std::int64_t hidden_bytes() const = 0;
};

/// `graph=on` captures the whole step (forward, backward, all-reduces, clip, optimizer, schedule)
/// after num_steps_before_capture runs and replays it from then on; call on one side stream
/// throughout. `train_step` must outlive it.
std::unique_ptr<StepExecutor> make_step_executor(const RunConfig& config, TrainStep& train_step);

}  // namespace steplens
