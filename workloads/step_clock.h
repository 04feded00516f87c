#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/run_config.h"

namespace steplens {

/// Two times of every step.
struct StepTimes {
  std::vector<std::int64_t> wall_ns;  // From one observed end of a step to the next.
  std::vector<std::int64_t> gpu_ns;   // Event to event; empty on a CPU, or without timing events.
  std::int64_t total_wall_ns = 0;     // One reading around all steps.
};

/// Times steps without making the device wait for the host.
///
/// On a GPU the host observes the end of step i - 1 only after it has enqueued step i, so the queue
/// never runs dry on its account; wall times are the differences of these observations, and add up
/// to the total exactly. With instrumentation=minimal there are no events: steps are paced by
/// nothing, and each wall time is the mean.
class StepClock {
 public:
  virtual ~StepClock() = default;
  /// Waits for the device, then starts.
  virtual void start() = 0;
  /// Call after enqueuing a step. Returns the wall time of a step that has been observed since
  /// (the one before, on a GPU), or -1.
  virtual std::int64_t end_step() = 0;
  /// Waits for the device and returns all steps since `start`.
  virtual StepTimes finish() = 0;
};

std::unique_ptr<StepClock> make_step_clock(const RunConfig& config, std::int64_t max_steps);

}  // namespace steplens
