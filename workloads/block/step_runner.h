#pragma once

#include <cstdint>

#include "harness/block.h"
#include "harness/run_config.h"
#include "workloads/data_feed.h"
#include "workloads/evidence.h"
#include "workloads/step_clock.h"
#include "workloads/step_executor.h"

namespace steplens {

/// Runs the steps of a block, one after the other.
class StepRunner {
 public:
  /// All must outlive it.
  StepRunner(const RunConfig& config, DataFeed& feed, StepExecutor& executor)
      : config_(config),
        feed_(feed),
        executor_(executor) {}

  /// One optimizer step, in its NVTX range; appends to `arrays` what the feed says of its batch.
  void run(StepArrays& arrays);

  std::int64_t num_steps_run() const { return num_steps_run_; }

  /// Grows in a step that is no steady one: the allocator asked the driver, a graph was captured.
  std::int64_t num_events() const;

 private:
  const RunConfig& config_;
  DataFeed& feed_;
  StepExecutor& executor_;
  std::int64_t num_steps_run_ = 0;
};

/// Moves the times of all steps into `arrays`; returns measured_wall_ns.
std::int64_t take_times(StepArrays& arrays, ClockedSteps times);

/// The first `num_warmup` steps of `all` become the record's warm-up, the others its steps.
void split_steps(const StepArrays& all, std::size_t num_warmup, BlockRecord& record);

/// Counters that changed, each with its change.
Counters difference(const Counters& after, const Counters& before);

}  // namespace steplens
