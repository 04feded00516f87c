#include "harness/cli/trace_verb.h"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cli/bundle_place.h"
#include "harness/cli/experiment_flags.h"
#include "harness/cli/locations.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/interrupt.h"
#include "harness/measured_device.h"
#include "harness/plan.h"
#include "harness/plan_syntax.h"
#include "harness/scheduler.h"
#include "harness/trace/trace_request.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    "Example:\n"
    "  steplens trace --model nano --set attention=math --steps 10 --out math.slt\n"
    "  steplens trace --arm torch-compile --out compiled.slt   PyTorch's step on the same work\n"
    "  steplens trace --out mine.slt -- python3 train.py       the whole run of any CUDA program\n"
    "  steplens trace --first-step 20 --steps 5 -- ./train     steps are NVTX ranges named "
    "\"step\"\n"
    "  steplens trace --counters                               SM, tensor and DRAM use over time\n"
    "  steplens trace --set graph=on --graph-level graph       one row a launch of a CUDA graph\n"
    "\n"
    "Prints where a step's time goes; `steplens export` makes files for Perfetto and SQLite of a\n"
    "trace. Exit code 5: the trace lost data.";

struct TraceFlags : MachineFlags {
  ExperimentFlags experiment;
  std::string out = "trace.slt";
  std::optional<std::int64_t> first_step;
  std::string arm;
  std::vector<std::string> program;
  std::string graph_level = "node";
  bool has_counters = false;
  bool is_json = false;

  BlockKind kind() const {
    if (has_counters) return BlockKind::kCounters;
    return graph_level == "graph" ? BlockKind::kGraphTrace : BlockKind::kTrace;
  }
};

// The trace that a bundle of one arm holds. DeviceError says why there is none.
fs::path trace_of(const fs::path& folder, BlockKind kind) {
  const Bundle bundle = open_bundle(folder);
  for (const BlockEntry& entry : bundle.manifest.blocks) {
    if (entry.kind != kind || entry.status != BlockStatus::kOk) continue;
    fs::path trace = block_path(folder, entry).parent_path() / kTraceFileName;
    if (fs::exists(trace)) return trace;
    throw DeviceError(
        fmt::format("{}: its block ended well and left no trace: the program ran nothing on the "
                    "GPU, or dropped CUDA_INJECTION64_PATH from its environment",
                    entry.arm));
  }
  throw DeviceError(bundle.manifest.notes.empty() ? "no trace was made"
                                                  : bundle.manifest.notes.back());
}

void copy_whole(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error)
    throw ConfigError(fmt::format("{}: cannot be written: {}", to.string(), error.message()));
}

fs::path inject_library_or_throw() {
  if (const auto library = find_inject_library()) return *library;
  throw ConfigError(
      "libsteplens_inject.so is not in ../lib of this program: it was built without "
      "CUPTI; run scripts/setup.sh and build anew");
}

// Our own worker traces itself; another program is traced by a library that CUDA loads.
void check_can_be_traced(const Arm& arm) {
  if (arm.command.empty()) return;
  if (arm.config.device == Device::kCpu) {
    throw ConfigError(fmt::format(
        "arm={}: not applicable on a CPU: another program is traced through CUDA; without --arm "
        "the baseline's operators are",
        arm.name));
  }
  inject_library_or_throw();
}

// Nothing but one arm of --arms, in the place of the baseline.
Plan plan_of_arm(const std::string& text, MatrixRequest request, const PlanVocabulary& vocabulary) {
  request.external_arms = parse_external_arms(text);
  if (request.external_arms->size() != 1) {
    throw ConfigError(
        fmt::format("arm={}: takes one arm, as --arms of `steplens matrix` does; "
                    "without --arm the baseline is traced",
                    text));
  }
  request.toggles.reset();
  Plan plan = make_plan(request, vocabulary);
  Arm arm = plan.arms.back();
  arm.is_baseline = true;
  arm.reference.clear();
  plan.baseline = arm.config;
  plan.arms = {std::move(arm)};
  return plan;
}

int trace_workload(const TraceFlags& flags, CliContext& context) {
  Experiment experiment = experiment_of(flags.experiment);
  if (flags.first_step) {
    throw ConfigError(
        "first-step: goes with another program; the workload is traced after its "
        "warm-up (--warmup)");
  }
  const std::unique_ptr<Machine> machine = context.make_machine();
  RunConfig baseline = baseline_of(experiment, context, *machine);
  if (baseline.device == Device::kCpu && flags.kind() != BlockKind::kTrace) {
    throw ConfigError(fmt::format(
        "{}: not applicable on a CPU; leave the flag out",
        flags.has_counters ? "counters" : fmt::format("graph-level={}", flags.graph_level)));
  }
  const std::int64_t num_steps = experiment.steps.value_or(kDefaultTraceSteps);
  const auto plan_now = [&] {
    MatrixRequest request = matrix_request(experiment, baseline);
    const auto steps_of = [&](BlockKind kind) { return kind == flags.kind() ? num_steps : 0; };
    request.num_trace_steps = steps_of(BlockKind::kTrace);
    request.num_graph_trace_steps = steps_of(BlockKind::kGraphTrace);
    request.num_memory_steps = 0;
    request.num_counter_steps = steps_of(BlockKind::kCounters);
    Plan plan = flags.arm.empty() ? make_baseline_plan(request, context.vocabulary)
                                  : plan_of_arm(flags.arm, request, context.vocabulary);
    plan.num_rounds = 0;  // Nothing is measured: the traced block follows the pilot.
    return plan;
  };
  // Faults of the request come first: preparing a corpus takes a while.
  check_can_be_traced(plan_now().arms.front());
  RunOptions options{.worker_command = {worker_or_throw().string()},
                     .package_export = package_export_of(context.vocabulary),
                     .gpu = flags.gpu,
                     .allows_foreign_load = flags.allows_foreign_load,
                     .block_timeout_s = flags.block_timeout_s};
  options.data_path = prepare_if_missing(data_of(experiment, baseline, context), baseline, context);
  adopt_data(baseline, experiment, describe_data(options.data_path));
  const Plan plan = plan_now();

  const BundlePlace place("");
  options.bundle = place.path();
  const InterruptGuard guard;
  const RunSite site = make_run_site(*machine);
  Progress progress(std::cerr, ::isatty(STDERR_FILENO) == 1, flags.is_quiet);
  const RunOutcome outcome = run_plan(plan, options, site, progress);
  if (outcome.end == RunEnd::kBaselineFailed) throw DeviceError(outcome.reason);
  if (outcome.end != RunEnd::kDone) {
    progress.say(fmt::format("steplens: stopped: {}", outcome.reason));
    return kExitIncomplete;
  }
  copy_whole(trace_of(place.path(), flags.kind()), flags.out);
  return context.print_trace(flags.out, flags.is_json);
}

// Runs the program with its own input and output; returns its exit code, 128 + n for signal n.
int run_in_foreground(std::vector<std::string> words) {
  const pid_t child = ::fork();
  if (child < 0) throw DeviceError(fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) {
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    fmt::print(stderr, "steplens: {}: {}\n", words[0], std::strerror(errno));
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int trace_program(const TraceFlags& flags, CliContext& context) {
  if (!flags.arm.empty()) {
    throw ConfigError(
        fmt::format("arm={}: goes with the workload, not with another program", flags.arm));
  }
  if (flags.program.front().find('=') != std::string::npos && !fs::exists(flags.program.front())) {
    throw ConfigError(fmt::format(
        "\"{0}\" is no program; to change the workload give --set before each key=value: --set {0}",
        flags.program.front()));
  }
  const fs::path library = inject_library_or_throw();
  TraceRequest request{.path = fs::absolute(flags.out),
                       .kind = trace_kind_from_name(name_of(flags.kind())),
                       .first_step = flags.first_step};
  if (flags.experiment.steps) request.num_steps = *flags.experiment.steps;
  if (flags.experiment.steps && !request.first_step) request.first_step = 0;
  request.info["arm"] = fs::path(flags.program.front()).filename().string();
  std::error_code ignored;
  fs::remove(request.path, ignored);
  for (const auto& [name, value] : environment_for(request, library)) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  const int exit_code = run_in_foreground(flags.program);
  if (exit_code == 127) return kExitUser;
  if (!fs::exists(request.path)) {
    throw DeviceError(
        fmt::format("{} wrote no trace (it ended with exit code {}): it used neither CUDA nor "
                    "NVTX, ended before "
                    "its step {}, or was killed",
                    flags.program.front(), exit_code, request.first_step.value_or(0)));
  }
  const int trace_code = context.print_trace(request.path, flags.is_json);
  if (exit_code != 0) {
    fmt::print(stderr, "steplens: {} ended with exit code {}; the trace is whole up to there\n",
               flags.program.front(), exit_code);
    return kExitDevice;
  }
  return trace_code;
}

}  // namespace

void add_trace_verb(CLI::App& app, CliContext& context, int& exit_code) {
  const auto flags = std::make_shared<TraceFlags>();
  CLI::App* verb = app.add_subcommand(
      "trace", "record every kernel of some steps, of the workload or of any program");
  verb->footer(kFooter);
  add_work_flags(*verb, flags->experiment);
  verb->add_option("--out", flags->out, "the trace file")->capture_default_str();
  verb->add_option("--first-step", flags->first_step,
                   "of another program: its first step to record (default: the whole run)")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--graph-level", flags->graph_level,
                   "CUDA graphs: node, a row for each of their kernels, or graph, a row a launch")
      ->check(CLI::IsMember({"node", "graph"}))
      ->capture_default_str();
  verb->add_flag("--counters", flags->has_counters,
                 "sample the GPU's hardware counters too: SM, tensor and DRAM use over time")
      ->excludes("--graph-level");
  add_machine_flags(*verb, *flags);
  verb->add_option("--arm", flags->arm,
                   "one arm of `steplens matrix --arms` instead of the baseline: torch-compile");
  verb->add_flag("--json", flags->is_json, "print JSON");
  verb->add_option("program", flags->program, "behind --: a program and its arguments");
  verb->callback([flags, &context, &exit_code] {
    exit_code =
        flags->program.empty() ? trace_workload(*flags, context) : trace_program(*flags, context);
  });
}

}  // namespace steplens
