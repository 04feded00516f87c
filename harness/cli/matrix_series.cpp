#include "harness/cli/matrix_series.h"

#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/cli/locations.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/measured_device.h"

namespace steplens {

namespace fs = std::filesystem;

MatrixSeries::MatrixSeries(const MachineFlags& flags, CliContext& context,
                           std::optional<double> max_seconds)
    : flags_(flags),
      context_(context),
      max_seconds_(max_seconds),
      machine_(context.make_machine()),
      progress_(std::cerr, ::isatty(STDERR_FILENO) == 1, flags.is_quiet) {
  start_s_ = make_run_site(*machine_).now_s();
}

std::optional<double> MatrixSeries::seconds_left() const {
  if (!max_seconds_) return std::nullopt;
  return *max_seconds_ - (make_run_site(*machine_).now_s() - start_s_);
}

RunConfig MatrixSeries::prepared_baseline(const Experiment& experiment, fs::path* data_path) {
  RunConfig baseline = baseline_of(experiment, context_, *machine_);
  const DataChoice data = data_of(experiment, baseline, context_);
  fs::path path = data.path;
  if (data_path != nullptr) {
    // Faults of the request come first: preparing a corpus takes a while.
    make_plan(matrix_request(experiment, baseline), context_.vocabulary);
    path = prepare_if_missing(data, baseline, context_);
    *data_path = path;
  }
  if (fs::exists(path)) adopt_data(baseline, experiment, describe_data(path));
  return baseline;
}

Plan MatrixSeries::plan_of(const Experiment& experiment) {
  return make_plan(matrix_request(experiment, prepared_baseline(experiment, nullptr)),
                   context_.vocabulary);
}

MatrixSeries::Outcome MatrixSeries::run(const Experiment& experiment, const fs::path& bundle,
                                        double share) {
  RunOptions options{.bundle = bundle,
                     .is_resume = fs::exists(bundle / "manifest.json"),
                     .worker_command = {worker_or_throw().string()},
                     .package_export = package_export_of(context_.vocabulary),
                     .memory_path = resume_memory_path(bundle),
                     .gpu = flags_.gpu,
                     .allows_foreign_load = flags_.allows_foreign_load,
                     .block_timeout_s = flags_.block_timeout_s};
  const RunConfig baseline = prepared_baseline(experiment, &options.data_path);
  const Plan plan = make_plan(matrix_request(experiment, baseline), context_.vocabulary);
  if (const std::optional<double> left_s = seconds_left()) {
    options.max_seconds = std::max(1.0, share * *left_s);
  }
  Outcome outcome;
  outcome.run =
      run_plan(plan, options, make_run_site(*machine_), progress_, [&](const fs::path& folder) {
        if (!context_.write_report) return;
        outcome.results = context_.write_report(folder).json;
      });
  return outcome;
}

}  // namespace steplens
