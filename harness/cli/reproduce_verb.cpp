#include "harness/cli/reproduce_verb.h"

#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/cli/experiment_flags.h"
#include "harness/cli/locations.h"
#include "harness/cli/run_to_end.h"
#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    "Example:\n"
    "  steplens reproduce reports/published/h200-gpt2-124m --out runs/again\n"
    "  steplens reproduce runs/theirs --rounds 4 --max-seconds 600\n"
    "\n"
    "Runs the arms, settings, steps, seed and rounds that the bundle records. The same command "
    "again\n"
    "goes on with a run that was stopped, and compares one that is done.\n"
    "Exit codes: 0 every effect agrees (the intervals overlap); 1 one does not, or none could be\n"
    "compared; 2 your mistake; 3 the device failed, or the bundle needs a GPU and none is here;\n"
    "4 incomplete, resumable.";

struct ReproduceFlags : MachineFlags {
  std::string original;
  std::string out;
  std::optional<std::string> data;
  std::optional<int> rounds;
  std::optional<double> max_seconds;
  bool leaves_out_traces = false;
  bool is_json = false;
};

fs::path default_copy(const fs::path& original) {
  const fs::path folder = fs::absolute(original).lexically_normal();
  const fs::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  return fs::path("runs") / (name.string() + "-reproduced");
}

void require_device(const Plan& plan, const Manifest& manifest, Machine& machine) {
  if (plan.baseline.device != Device::kCuda || !machine.gpus().empty()) return;
  throw DeviceError(fmt::format("the bundle was measured on {}, and there is no GPU here: {}",
                                manifest.gpu_name, machine.why_no_gpu()));
}

int reproduce(const ReproduceFlags& flags, CliContext& context) {
  const fs::path original = flags.original;
  const Manifest manifest = read_manifest(original, "reproduce");
  Plan plan = plan_of(manifest);
  if (flags.rounds) plan.num_rounds = *flags.rounds;
  if (flags.leaves_out_traces) {
    plan.num_trace_steps = plan.num_graph_trace_steps = 0;
    plan.num_memory_steps = plan.num_counter_steps = 0;
  }
  const std::unique_ptr<Machine> machine = context.make_machine();
  require_device(plan, manifest, *machine);
  find_commands(plan, context.vocabulary);

  const fs::path copy = flags.out.empty() ? default_copy(original) : fs::path(flags.out);
  std::error_code error;
  if (fs::equivalent(original, copy, error)) {
    throw ConfigError(fmt::format("out: {} is the bundle itself", copy.string()));
  }
  RunOptions options{.bundle = copy,
                     .is_resume = fs::exists(copy / "manifest.json"),
                     .worker_command = {worker_or_throw().string()},
                     .package_export = package_export_of(context.vocabulary),
                     .memory_path = resume_memory_path(copy),
                     .gpu = flags.gpu,
                     .max_seconds = flags.max_seconds,
                     .allows_foreign_load = flags.allows_foreign_load,
                     .block_timeout_s = flags.block_timeout_s};
  Experiment experiment;
  experiment.data = flags.data;
  options.data_path =
      prepare_if_missing(data_of(experiment, plan.baseline, context), plan.baseline, context);

  const std::string again =
      fmt::format("steplens reproduce {} --out {}", original.string(), copy.string());
  const int exit_code =
      run_to_end(plan, options, *machine, flags.is_quiet, again, [&](const fs::path& bundle) {
        if (context.write_report) context.write_report(bundle);
      });
  if (exit_code != kExitOk) return exit_code;
  const CliContext::Reproduced outcome = context.compare_reproduction(original, copy);
  if (flags.is_json) {
    std::cout << outcome.printout.json.dump(2) << '\n';
  } else {
    std::cout << outcome.printout.text;
  }
  return outcome.is_reproduced ? kExitOk : kExitFailed;
}

}  // namespace

void add_reproduce_verb(CLI::App& app, CliContext& context, int& exit_code) {
  const auto flags = std::make_shared<ReproduceFlags>();
  CLI::App* verb = app.add_subcommand(
      "reproduce", "run a bundle's experiment here and say which effects are found again");
  verb->footer(kFooter);
  verb->add_option("bundle", flags->original, "folder of the bundle to repeat")->required();
  verb->add_option("--out", flags->out,
                   "folder of the new bundle (default runs/NAME-reproduced); one that is there is "
                   "continued");
  verb->add_option("--data", flags->data,
                   "token file (.bin); default: the corpus of `steplens data prepare`");
  verb->add_option("--rounds", flags->rounds, "fewer or more rounds than the bundle")
      ->check(CLI::PositiveNumber);
  verb->add_option("--max-seconds", flags->max_seconds,
                   "stop at the end of a round before this is over")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--no-traces", flags->leaves_out_traces,
                 "leave out traces, memory and counters: the effects need none of them");
  add_machine_flags(*verb, *flags);
  verb->add_flag("--json", flags->is_json, "print JSON");
  verb->callback([flags, &context, &exit_code] { exit_code = reproduce(*flags, context); });
}

}  // namespace steplens
