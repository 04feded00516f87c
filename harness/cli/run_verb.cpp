#include "harness/cli/run_verb.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "harness/cli/bundle_place.h"
#include "harness/cli/experiment_flags.h"
#include "harness/cli/locations.h"
#include "harness/cli/text_table.h"
#include "harness/error.h"
#include "harness/interrupt.h"
#include "harness/measured_device.h"
#include "harness/scheduler.h"
#include "harness/statistics.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr const char* kFooter =
    "Example:\n"
    "  steplens run --model nano --set attention=math --blocks 3\n"
    "\n"
    "Runs a pilot, a soak block and the blocks asked for, each in a fresh process, and prints one\n"
    "number a block. To compare two settings use `steplens matrix`: two runs differ by drift too.";

struct RunFlags : MachineFlags {
  ExperimentFlags experiment;
  std::string out;
  int num_blocks = 1;
  bool keeps_logs = false;
  bool is_json = false;
};

struct MetricValues {
  std::string_view name;
  std::vector<double> values;  // One a block that has it.
};

std::vector<MetricValues> metrics_of(const Bundle& bundle) {
  std::vector<MetricValues> metrics = {{.name = "positions_per_s"},
                                       {.name = "valid_tokens_per_s"},
                                       {.name = "loss_tokens_per_s"},
                                       {.name = "step_wall_ns"},
                                       {.name = "peak_allocated_bytes"}};
  for (std::size_t i = 0; i < bundle.blocks.size(); ++i) {
    const BlockRecord& block = bundle.blocks[i];
    if (block.kind != BlockKind::kThroughput || block.status != BlockStatus::kOk ||
        bundle.manifest.blocks[i].is_superseded) {
      continue;
    }
    metrics[0].values.push_back(positions_per_s(block));
    metrics[1].values.push_back(valid_tokens_per_s(block));
    metrics[2].values.push_back(loss_tokens_per_s(block));
    metrics[3].values.push_back(mean_step_wall_ns(block));
    const auto peak = block.memory.find("peak_allocated_bytes");
    if (peak != block.memory.end() && peak->is_number()) {
      metrics[4].values.push_back(peak->get<double>());
    }
  }
  std::erase_if(metrics, [](const MetricValues& metric) { return metric.values.empty(); });
  return metrics;
}

void print_metrics(const Bundle& bundle, bool is_json) {
  const std::vector<MetricValues> metrics = metrics_of(bundle);
  if (is_json) {
    json object = {{"config", to_json(bundle.manifest.baseline)},
                   {"num_warmup_steps", bundle.manifest.num_warmup_steps},
                   {"num_measured_steps", bundle.manifest.num_measured_steps},
                   {"blocks", json::object()},
                   {"median", json::object()}};
    for (const MetricValues& metric : metrics) {
      object["blocks"][std::string(metric.name)] = metric.values;
      object["median"][std::string(metric.name)] = median(metric.values);
    }
    std::cout << object.dump(2) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"metric", "median", "smallest", "largest", "blocks"}};
  for (const MetricValues& metric : metrics) {
    const auto [smallest, largest] = std::ranges::minmax(metric.values);
    rows.push_back({std::string(metric.name), fmt::format("{:.4g}", median(metric.values)),
                    fmt::format("{:.4g}", smallest), fmt::format("{:.4g}", largest),
                    fmt::format("{}", metric.values.size())});
  }
  std::cout << aligned(rows);
}

int run_blocks(const RunFlags& flags, CliContext& context) {
  const Experiment experiment = experiment_of(flags.experiment);
  const std::unique_ptr<Machine> machine = context.make_machine();
  RunConfig baseline = baseline_of(experiment, context, *machine);
  const auto plan_now = [&] {
    MatrixRequest request = matrix_request(experiment, baseline);
    request.num_rounds = flags.num_blocks;
    request.num_trace_steps = 0;
    request.num_memory_steps = 0;
    request.num_counter_steps = 0;
    return make_baseline_plan(request, context.vocabulary);
  };
  plan_now();  // Faults of the request come first: preparing a corpus takes a while.
  RunOptions options{.worker_command = {worker_or_throw().string()},
                     .package_export = package_export_of(context.vocabulary),
                     .gpu = flags.gpu,
                     .allows_foreign_load = flags.allows_foreign_load,
                     .block_timeout_s = flags.block_timeout_s,
                     .keeps_logs = flags.keeps_logs};
  options.data_path = prepare_if_missing(data_of(experiment, baseline, context), baseline, context);
  adopt_data(baseline, experiment, describe_data(options.data_path));
  const Plan plan = plan_now();

  const BundlePlace place(flags.out);
  options.bundle = place.path();
  const InterruptGuard guard;
  const RunSite site = make_run_site(*machine);
  Progress progress(std::cerr, ::isatty(STDERR_FILENO) == 1, flags.is_quiet);
  const RunOutcome outcome = run_plan(plan, options, site, progress);
  if (outcome.end == RunEnd::kBaselineFailed) throw DeviceError(outcome.reason);
  if (outcome.num_complete_rounds > 0) print_metrics(open_bundle(place.path()), flags.is_json);
  if (outcome.end == RunEnd::kDone) return kExitOk;
  progress.say(fmt::format("steplens: stopped after {} of {} blocks: {}",
                           outcome.num_complete_rounds, flags.num_blocks, outcome.reason));
  return kExitIncomplete;
}

}  // namespace

void add_run_verb(CLI::App& app, CliContext& context, int& exit_code) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* verb = app.add_subcommand("run", "measure one setting and print its metrics");
  verb->footer(kFooter);
  add_work_flags(*verb, flags->experiment);
  verb->add_option("--blocks", flags->num_blocks, "blocks to measure (default 1)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--out", flags->out, "keep the bundle in that folder (default: thrown away)");
  add_machine_flags(*verb, *flags);
  verb->add_flag("--keep-logs", flags->keeps_logs, "keep each block's output in the bundle");
  verb->add_flag("--json", flags->is_json, "print JSON");
  verb->callback([flags, &context, &exit_code] { exit_code = run_blocks(*flags, context); });
}

}  // namespace steplens
