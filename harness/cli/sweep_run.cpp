#include "harness/cli/sweep_run.h"

#include <iostream>

#include <fmt/format.h>

#include "harness/cli/locations.h"
#include "harness/cli/matrix_series.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/resume_memory.h"
#include "harness/sweep.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

Sweep requested_sweep(const SweepFlags& flags, const Experiment& experiment) {
  Sweep sweep = parse_sweep(flags.sweep);
  sweep.holds_positions = flags.holds_positions;
  sweep.experiment = experiment;
  return sweep;
}

// The sweep that the folder holds. What else was said must not contradict it.
Sweep resumed_sweep(const SweepFlags& flags, const Experiment& experiment) {
  Sweep sweep = read_sweep(flags.folder);
  if (!flags.sweep.empty() || experiment.decides_plan()) {
    Sweep repeated = requested_sweep(flags, experiment);
    repeated.experiment.max_seconds = sweep.experiment.max_seconds;  // It may change.
    if (to_json(repeated) != to_json(sweep)) {
      throw ConfigError(fmt::format("{}: holds another sweep; resume it with --resume {} alone",
                                    (flags.folder / kSweepFileName).string(),
                                    flags.folder.string()));
    }
  }
  sweep.experiment.data = experiment.data;
  if (experiment.max_seconds) sweep.experiment.max_seconds = experiment.max_seconds;
  return sweep;
}

class SweepRun {
 public:
  SweepRun(Sweep sweep, const SweepFlags& flags, const MachineFlags& machine_flags,
           CliContext& context)
      : sweep_(std::move(sweep)),
        flags_(flags),
        context_(context),
        series_(machine_flags, context, sweep_.experiment.max_seconds),
        baseline_(baseline_of(sweep_.experiment, context, series_.machine())) {}

  int print_plan() {
    nlohmann::json points = nlohmann::json::array();
    for (const std::string& value : sweep_.values) {
      const Plan plan = series_.plan_of(at(value));
      points.push_back({{"value", value},
                        {"num_arms", plan.arms.size()},
                        {"num_rounds", plan.num_rounds},
                        {"batch", batch_arithmetic(plan.baseline)},
                        {"sequence_length", plan.baseline.sequence_length}});
      if (flags_.is_json) continue;
      fmt::print("{}={}: {} arms, {} rounds, {}, sequence_length {}\n", sweep_.key, value,
                 plan.arms.size(), plan.num_rounds, batch_arithmetic(plan.baseline),
                 plan.baseline.sequence_length);
    }
    if (flags_.is_json) std::cout << points.dump(2) << '\n';
    return kExitOk;
  }

  int run() {
    begin_folder();
    bool is_complete = true;
    for (std::size_t i = 0; i < sweep_.values.size(); ++i) {
      const std::string& value = sweep_.values[i];
      series_.progress().say(
          fmt::format("{}={} ({} of {})", sweep_.key, value, i + 1, sweep_.values.size()));
      const MatrixSeries::Outcome outcome =
          series_.run(at(value), flags_.folder / point_folder(sweep_, value),
                      1.0 / static_cast<double>(sweep_.values.size() - i));
      switch (outcome.run.end) {
        case RunEnd::kDone: break;
        case RunEnd::kTimeLimit: is_complete &= outcome.run.num_complete_rounds > 0; break;
        // The other values may do.
        case RunEnd::kBaselineFailed: series_.progress().say(outcome.run.reason); break;
        case RunEnd::kInterrupted:
        case RunEnd::kUnsteady:
          series_.progress().say(
              fmt::format("steplens: stopped at {}={} ({}); continue with: "
                          "steplens matrix --resume {}",
                          sweep_.key, value, outcome.run.reason, flags_.folder.string()));
          return kExitIncomplete;
      }
    }
    report();
    return is_complete ? kExitOk : kExitIncomplete;
  }

 private:
  Experiment at(const std::string& value) const {
    Experiment experiment = experiment_at(sweep_, value, baseline_);
    experiment.max_seconds.reset();  // The sweep's own, shared out among the values.
    return experiment;
  }

  void begin_folder() {
    if (flags_.is_resume) {
      if (!sweep_.experiment.data) {
        const fs::path data = read_resume_memory(resume_memory_path(flags_.folder)).data_path;
        if (!data.empty()) sweep_.experiment.data = data.string();
      }
      return;
    }
    // All faults of all values come before the first block.
    for (const std::string& value : sweep_.values) series_.plan_of(at(value));
    if (fs::exists(flags_.folder) && !fs::is_empty(flags_.folder)) {
      throw ConfigError(fmt::format("out: {} exists and is not empty; --resume goes on with a run",
                                    flags_.folder.string()));
    }
    fs::create_directories(flags_.folder);
    if (sweep_.experiment.data) {
      write_resume_memory(resume_memory_path(flags_.folder),
                          {.data_path = fs::absolute(*sweep_.experiment.data)});
    }
    write_json_atomically(flags_.folder / kSweepFileName, to_json(sweep_));
  }

  void report() {
    if (!context_.write_report) return;
    const Printout report = context_.write_report(flags_.folder);
    if (flags_.is_json) {
      std::cout << report.json.dump(2) << '\n';
    } else {
      std::cout << report.text;
    }
  }

  Sweep sweep_;
  const SweepFlags& flags_;
  CliContext& context_;
  MatrixSeries series_;
  RunConfig baseline_;
};

}  // namespace

int run_sweep(const SweepFlags& flags, const ExperimentFlags& experiment_flags,
              const MachineFlags& machine_flags, CliContext& context) {
  const Experiment experiment = experiment_of(experiment_flags);
  if (experiment.aa) throw ConfigError("sweep: an A/A has no effect to follow; leave out --aa");
  SweepRun run(
      flags.is_resume ? resumed_sweep(flags, experiment) : requested_sweep(flags, experiment),
      flags, machine_flags, context);
  return flags.is_dry_run ? run.print_plan() : run.run();
}

}  // namespace steplens
