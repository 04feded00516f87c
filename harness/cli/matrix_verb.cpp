#include "harness/cli/matrix_verb.h"

#include <ctime>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/cli/experiment_flags.h"
#include "harness/cli/locations.h"
#include "harness/cli/plan_text.h"
#include "harness/cli/run_to_end.h"
#include "harness/cli/sweep_run.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/measured_device.h"
#include "harness/scheduler.h"
#include "harness/sweep.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    "Example:\n"
    "  steplens matrix --toggles 'attention=math|mem_efficient,optimizer' --rounds 12 --out "
    "runs/a\n"
    "  steplens matrix --resume runs/a          goes on with a run that was stopped\n"
    "  steplens matrix --aa 20 --out runs/aa    checks the tool against itself\n"
    "  steplens matrix --dry-run                says what would run\n"
    "  steplens matrix --toggles attention --sweep seq_len=512,1024,2048 --out runs/by-length\n"
    "\n"
    "Without --toggles, --grid, --arms or --aa the default toggles of `steplens list toggles` "
    "run.\n"
    "Exit codes: 0 done (rows may be FAILED), or --max-seconds over after at least one round;\n"
    "2 your mistake; 3 the device failed, is in use by others, or the baseline failed;\n"
    "4 incomplete: --resume goes on.";

struct MatrixFlags : MachineFlags {
  ExperimentFlags experiment;
  std::string out;
  std::string resume;
  std::string like;
  std::string sweep;
  bool holds_positions = false;
  bool is_resume = false;
  bool is_dry_run = false;
  bool keeps_logs = false;
  bool is_json = false;
};

std::string default_bundle_name(const RunConfig& baseline) {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::localtime_r(&now, &fields);
  return fmt::format("runs/{}-{:04}{:02}{:02}-{:02}{:02}{:02}", folder_name_of(baseline.model),
                     fields.tm_year + 1900, fields.tm_mon + 1, fields.tm_mday, fields.tm_hour,
                     fields.tm_min, fields.tm_sec);
}

// Durations of an earlier bundle's blocks.
BlockDurations durations_of(const fs::path& folder) {
  const Bundle bundle = open_bundle(folder);
  BlockDurations durations;
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    durations.add(bundle.manifest.blocks[i], bundle.blocks[i]);
  }
  return durations;
}

bool asks_for_sweep(const MatrixFlags& flags) {
  const fs::path folder = flags.resume.empty() ? flags.out : flags.resume;
  return !flags.sweep.empty() || (flags.is_resume && is_sweep(folder));
}

int sweep_verb(const MatrixFlags& flags, CliContext& context) {
  const std::string folder = flags.resume.empty() ? flags.out : flags.resume;
  if (folder.empty() && !flags.is_dry_run) {
    throw ConfigError("sweep: needs a folder for its bundles; name one with --out");
  }
  return run_sweep({.sweep = flags.sweep,
                    .holds_positions = flags.holds_positions,
                    .folder = folder,
                    // A folder that has not begun yet can be named with --resume too.
                    .is_resume = flags.is_resume && is_sweep(folder),
                    .is_dry_run = flags.is_dry_run,
                    .is_json = flags.is_json},
                   flags.experiment, flags, context);
}

class MatrixVerb {
 public:
  MatrixVerb(const MatrixFlags& flags, CliContext& context)
      : flags_(flags),
        context_(context),
        machine_(context.make_machine()) {}

  int run() {
    const Experiment experiment = experiment_of(flags_.experiment);
    fs::path bundle = flags_.resume.empty() ? flags_.out : flags_.resume;
    if (flags_.is_resume && bundle.empty()) {
      throw ConfigError("resume: names no bundle; write --resume FOLDER");
    }
    RunOptions options{.is_resume = flags_.is_resume,
                       .package_export = package_export_of(context_.vocabulary),
                       .gpu = flags_.gpu,
                       .max_seconds = experiment.max_seconds,
                       .allows_foreign_load = flags_.allows_foreign_load,
                       .block_timeout_s = flags_.block_timeout_s,
                       .keeps_logs = flags_.keeps_logs};
    const Plan plan = flags_.is_resume && !experiment.decides_plan()
                          ? resumed_plan(experiment, bundle, options)
                          : new_plan(experiment, options);
    if (flags_.is_dry_run) return print_plan(plan);
    options.worker_command = {worker_or_throw().string()};
    options.bundle = bundle.empty() ? fs::path(default_bundle_name(plan.baseline)) : bundle;
    options.memory_path = resume_memory_path(options.bundle);
    return run_plan_here(plan, options);
  }

 private:
  Plan new_plan(const Experiment& experiment, RunOptions& options) {
    RunConfig baseline = baseline_of(experiment, context_, *machine_);
    const DataChoice data = data_of(experiment, baseline, context_);
    options.data_path = data.path;
    if (!flags_.is_dry_run) {
      // Faults of the request come first: preparing a corpus takes a while.
      make_plan(matrix_request(experiment, baseline), context_.vocabulary);
      worker_or_throw();
      options.data_path = prepare_if_missing(data, baseline, context_);
    }
    if (!flags_.is_dry_run || fs::exists(data.path)) {
      adopt_data(baseline, experiment, describe_data(options.data_path));
    }
    return make_plan(matrix_request(experiment, baseline), context_.vocabulary);
  }

  // Only the bundle was named: it says itself what it compares.
  Plan resumed_plan(const Experiment& experiment, const fs::path& bundle, RunOptions& options) {
    Plan plan = plan_of(read_manifest(bundle, "resume"));
    find_commands(plan, context_.vocabulary);
    if (experiment.data) options.data_path = *experiment.data;
    options.default_data_path = data_of({}, plan.baseline, context_).path;
    return plan;
  }

  int print_plan(const Plan& plan) const {
    const std::string source =
        flags_.like.empty()
            ? fmt::format("at {:.0f} s a block; --like BUNDLE knows better", kDefaultBlockS)
            : "as long as those of --like";
    const BlockDurations durations =
        flags_.like.empty() ? BlockDurations{} : durations_of(flags_.like);
    const Printout printout = describe_plan(plan, durations, source);
    if (flags_.is_json) {
      std::cout << printout.json.dump(2) << '\n';
    } else {
      std::cout << printout.text;
    }
    return kExitOk;
  }

  int run_plan_here(const Plan& plan, const RunOptions& options) {
    const std::string resume = fmt::format("steplens matrix --resume {}", options.bundle.string());
    return run_to_end(plan, options, *machine_, flags_.is_quiet, resume,
                      [&](const fs::path& bundle) {
                        if (!context_.write_report) return;
                        const Printout report = context_.write_report(bundle);
                        if (flags_.is_json) {
                          std::cout << report.json.dump(2) << '\n';
                        } else {
                          std::cout << report.text;
                        }
                      });
  }

  const MatrixFlags& flags_;
  CliContext& context_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace

void add_matrix_verb(CLI::App& app, CliContext& context, int& exit_code) {
  const auto flags = std::make_shared<MatrixFlags>();
  CLI::App* verb = app.add_subcommand(
      "matrix", "measure a matrix of one-variable toggles and write a bundle with its report");
  verb->footer(kFooter);
  add_work_flags(*verb, flags->experiment);
  add_comparison_flags(*verb, flags->experiment);
  CLI::Option* out =
      verb->add_option("--out", flags->out, "folder of the bundle (default runs/MODEL-TIME)");
  CLI::Option* resume =
      verb->add_option("--resume", flags->resume, "continue the bundle in that folder, or in --out")
          ->expected(0, 1);
  verb->add_option("--sweep", flags->sweep,
                   "run the matrix at several values of a config key: seq_len=512,1024,2048");
  verb->add_flag("--hold-positions", flags->holds_positions,
                 "with --sweep of seq_len or global_batch: the other follows, so that every value "
                 "has as many positions a step as the first one");
  add_machine_flags(*verb, *flags);
  verb->add_flag("--keep-logs", flags->keeps_logs,
                 "keep each block's output in the bundle (it may name this machine)");
  verb->add_flag("--dry-run", flags->is_dry_run, "print the plan and write nothing");
  verb->add_option("--like", flags->like,
                   "with --dry-run: expect blocks as long as those of this bundle");
  verb->add_flag("--json", flags->is_json, "print results (or the plan) as JSON");
  verb->callback([flags, out, resume, &context, &exit_code] {
    flags->is_resume = resume->count() > 0;
    if (!flags->resume.empty() && out->count() > 0 && flags->resume != flags->out) {
      throw ConfigError("resume: --out names another folder than --resume");
    }
    if (flags->holds_positions && !asks_for_sweep(*flags)) {
      throw ConfigError("hold-positions: takes a --sweep");
    }
    exit_code =
        asks_for_sweep(*flags) ? sweep_verb(*flags, context) : MatrixVerb(*flags, context).run();
  });
}

}  // namespace steplens
