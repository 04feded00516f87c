#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/cli/context.h"
#include "harness/cli/experiment_flags.h"
#include "harness/experiment.h"
#include "harness/interrupt.h"
#include "harness/progress.h"
#include "harness/scheduler.h"

namespace steplens {

/// Matrices that one verb runs one after the other, each a bundle of its own: the points of a
/// sweep, the steps of a recipe. Each goes on where it stopped; one that is finished is only read.
class MatrixSeries {
 public:
  /// `max_seconds` is for all of them together.
  MatrixSeries(const MachineFlags& flags, CliContext& context, std::optional<double> max_seconds);

  struct Outcome {
    RunOutcome run;
    nlohmann::json results;  // As results.json; null where the run was interrupted.
    bool is_complete() const { return run.end == RunEnd::kDone; }
  };

  /// The plan of `experiment`, without running anything. ConfigError as `make_plan`.
  Plan plan_of(const Experiment& experiment);

  /// Runs `experiment` in `bundle`. `share` (0 to 1] is what it may take of the time that is left.
  /// ConfigError, ForeignLoadError and DeviceError as `run_plan`.
  Outcome run(const Experiment& experiment, const std::filesystem::path& bundle, double share);

  Machine& machine() { return *machine_; }
  Progress& progress() { return progress_; }
  /// Seconds left of `max_seconds`; absent without a limit.
  std::optional<double> seconds_left() const;

 private:
  RunConfig prepared_baseline(const Experiment& experiment, std::filesystem::path* data_path);

  const MachineFlags& flags_;
  CliContext& context_;
  std::optional<double> max_seconds_;
  double start_s_;
  std::unique_ptr<Machine> machine_;
  InterruptGuard interrupts_;
  Progress progress_;
};

}  // namespace steplens
