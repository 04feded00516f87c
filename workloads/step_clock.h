#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/run_config.h"

namespace steplens {

/// Two times of every step.
struct ClockedSteps {
  std::vector<std::int64_t> wall_ns;  // From one observed end of a step to the next.
  std::vector<std::int64_t> gpu_ns;   // Event to event; empty on a CPU, or without timing events.
  std::int64_t measured_wall_ns = 0;  // One difference around all steps after the warm-up.
};

/// Times steps without making the device wait for the host, and without a pause between warm-up
/// and measured steps.
///
/// On a GPU an event ends each step and a thread of its own observes it (EndObserver); wall times
/// are the differences of these observations. The host stays at most one step ahead of the device.
/// With instrumentation=minimal only the ends of the warm-up and of the last step are observed, and
/// each wall time is the mean of its phase.
class StepClock {
 public:
  virtual ~StepClock() = default;
  /// Waits for the device, then starts.
  virtual void start() = 0;
  /// Call after enqueuing a step. Returns the wall time of a step that has been observed since
  /// (the one before, on a GPU), or -1.
  virtual std::int64_t end_step() = 0;
  /// Waits for the device and returns all steps since `start`.
  virtual ClockedSteps finish() = 0;
};

/// `num_warmup_steps`: steps after `start` that are not measured. A pilot needs every step's time,
/// so it observes each whatever the instrumentation.
std::unique_ptr<StepClock> make_step_clock(const RunConfig& config, std::int64_t num_warmup_steps,
                                           std::int64_t max_steps, bool is_pilot);

}  // namespace steplens
