#include "harness/cli/plan_verb.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include "harness/batch_plan.h"
#include "harness/bundle.h"
#include "harness/byte_size.h"
#include "harness/cli/experiment_flags.h"
#include "harness/cli/text_table.h"
#include "harness/config_text.h"
#include "harness/error.h"

namespace steplens {
namespace {

struct PlanFlags {
  ExperimentFlags experiment;
  std::optional<std::string> memory;
  std::optional<std::int64_t> global_batch;
  std::optional<std::string> from;
  std::optional<std::string> arm;
  std::optional<std::string> check;
  bool is_json = false;
};

std::string gib(std::int64_t bytes) {
  return bytes >= (1LL << 30) ? fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1LL << 30))
                              : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1LL << 20));
}

std::string step_text(const std::optional<double>& step_ns) {
  return step_ns ? fmt::format("{:.1f} ms", *step_ns / 1e6) : "-";
}

// Rates of all arms of a bundle: means over their good throughput blocks.
std::vector<MeasuredRate> rates_of(const std::filesystem::path& folder) {
  const Bundle bundle = open_bundle(folder);
  std::vector<MeasuredRate> rates;
  for (const Arm& arm : bundle.manifest.arms) {
    double sum = 0;
    int count = 0;
    for (const BlockRecord& block : bundle.blocks) {
      if (block.arm != arm.name || block.kind != BlockKind::kThroughput ||
          block.status != BlockStatus::kOk || block.steps.size() == 0) {
        continue;
      }
      sum += std::log(positions_per_s(block));
      ++count;
    }
    if (count == 0 || !arm.command.empty()) continue;
    rates.push_back({.config = arm.config,
                     .positions_per_s = std::exp(sum / count),
                     .source = fmt::format("arm {}", arm.name)});
  }
  return rates;
}

// ---- plan: what fits. ----

void print_choices(const BatchPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"", "micro-batch", "accumulation", "checkpoint",
                                                 "peak allocated", "device needs", "fits", "step"}};
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const BatchChoice& choice = plan.choices[i];
    rows.push_back({plan.best == i ? "*" : "", fmt::format("{}", micro_batch_size(choice.config)),
                    fmt::format("{}", choice.config.num_accumulation),
                    std::string(name_of(choice.config.checkpoint)),
                    gib(choice.memory.peak_allocated_bytes()), gib(choice.memory.needed_bytes()),
                    choice.fits ? "yes" : "no", step_text(choice.step_ns)});
  }
  std::cout << aligned(rows);
}

void print_parts(const MemoryPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"owner", "module", "bytes", "how"}};
  for (const MemoryPart& part : plan.parts) {
    rows.push_back({std::string(part.owner), std::string(part.module), gib(part.bytes),
                    std::string(part.formula)});
  }
  rows.push_back({"peak allocated", "", gib(plan.peak_allocated_bytes()),
                  fmt::format("reached at {}", name_of(plan.moment))});
  rows.push_back({"cache slack", "", gib(plan.reserved_bytes - plan.peak_allocated_bytes()),
                  "upper estimate"});
  if (plan.context_bytes > 0) rows.push_back({"context", "", gib(plan.context_bytes), "driver"});
  std::cout << aligned(rows);
}

int print_plan(const BatchPlan& plan, bool is_json) {
  if (is_json) {
    std::cout << to_json(plan).dump(2) << '\n';
    return plan.best ? kExitOk : kExitFailed;
  }
  print_choices(plan);
  if (!plan.best) {
    fmt::print(std::cout, "\nNothing fits into {}: the smallest choice needs {}.\n",
               gib(plan.memory_bytes), gib(plan.choices.back().memory.needed_bytes()));
    return kExitFailed;
  }
  const BatchChoice& best = plan.choices[*plan.best];
  fmt::print(std::cout, "\n* {}, checkpoint={}\n\n", batch_arithmetic(best.config),
             name_of(best.config.checkpoint));
  print_parts(best.memory);
  fmt::print(std::cout, "\nRun: steplens matrix {}\n",
             fmt::join(words_of_config(best.config), " "));
  return kExitOk;
}

// ---- plan --check: predictions beside what a bundle has measured. ----

struct CheckedArm {
  std::string arm;
  std::int64_t measured_bytes = 0;
  MemoryPlan plan;
  double error_ratio() const {
    return static_cast<double>(plan.peak_allocated_bytes()) / static_cast<double>(measured_bytes);
  }
};

// The allocator's own number; where it keeps none, as on a CPU, the account's.
std::optional<std::int64_t> measured_peak(const BlockRecord& block) {
  const auto peak = block.memory.find("peak_allocated_bytes");
  if (peak != block.memory.end() && peak->is_number()) return peak->get<std::int64_t>();
  const auto account = block.evidence.find("memory_account");
  if (account == block.evidence.end() || !account->is_object()) return std::nullopt;
  const auto bytes = account->find("allocated_bytes");
  if (bytes == account->end() || !bytes->is_number()) return std::nullopt;
  return bytes->get<std::int64_t>();
}

// Of each arm the last block that knows its peak: a memory block, else a throughput block.
std::vector<CheckedArm> check_bundle(const std::filesystem::path& folder) {
  const Bundle bundle = open_bundle(folder);
  std::vector<CheckedArm> arms;
  bool has_peaks = false;
  for (const Arm& arm : bundle.manifest.arms) {
    std::optional<std::int64_t> measured;
    bool is_account = false;
    for (const BlockRecord& block : bundle.blocks) {
      if (block.arm != arm.name || block.status != BlockStatus::kOk || is_account) continue;
      if (block.kind != BlockKind::kThroughput && block.kind != BlockKind::kMemory) continue;
      const std::optional<std::int64_t> peak = measured_peak(block);
      if (!peak) continue;
      measured = peak;
      is_account = block.kind == BlockKind::kMemory;
    }
    if (!measured || *measured <= 0 || !arm.command.empty()) continue;
    has_peaks = true;
    if (const std::string reason = why_not_predicted(arm.config); !reason.empty()) {
      std::cerr << fmt::format("steplens: {} is left out: {}\n", arm.name, reason);
      continue;
    }
    arms.push_back(
        {.arm = arm.name, .measured_bytes = *measured, .plan = predict_memory(arm.config)});
  }
  if (arms.empty()) {
    throw ConfigError(fmt::format("check: {}: {}", folder.string(),
                                  has_peaks ? "none of its arms is one that can be predicted"
                                            : "no block of ours knows its peak memory"));
  }
  return arms;
}

int print_check(const std::vector<CheckedArm>& arms, bool is_json) {
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {
      {"arm", "predicted", "measured", "difference", "peak at"}};
  double worst = 0;
  for (const CheckedArm& arm : arms) {
    worst = std::max(worst, std::abs(arm.error_ratio() - 1));
    list.push_back({{"arm", arm.arm},
                    {"predicted_bytes", arm.plan.peak_allocated_bytes()},
                    {"measured_bytes", arm.measured_bytes},
                    {"error_ratio", arm.error_ratio()}});
    rows.push_back({arm.arm, gib(arm.plan.peak_allocated_bytes()), gib(arm.measured_bytes),
                    fmt::format("{:+.2f} %", 100 * (arm.error_ratio() - 1)),
                    std::string(name_of(arm.plan.moment))});
  }
  if (is_json) {
    std::cout << list.dump(2) << '\n';
  } else {
    fmt::print(std::cout, "{}\nLargest difference: {:.2f} %\n", aligned(rows), 100 * worst);
  }
  return worst <= 0.05 ? kExitOk : kExitFailed;
}

// What --arm names: an arm of the bundle that --from names. Absent without --arm.
std::optional<RunConfig> config_of_arm(const PlanFlags& flags) {
  if (!flags.arm) return std::nullopt;
  if (!flags.from) {
    throw ConfigError(
        fmt::format("arm={}: is an arm of a bundle; name that with --from", *flags.arm));
  }
  if (flags.experiment.model || flags.experiment.device) {
    throw ConfigError(
        fmt::format("arm={}: says model and device; leave out --model and --device", *flags.arm));
  }
  const Manifest manifest = open_bundle(*flags.from).manifest;
  std::vector<std::string> names;
  for (const Arm& arm : manifest.arms) {
    if (!arm.command.empty()) continue;  // Other programs: their memory is not modelled.
    if (arm.name == *flags.arm) return arm.config;
    names.push_back(arm.name);
  }
  throw ConfigError(fmt::format("arm={}: is no arm of {} that can be planned; there are: {}",
                                *flags.arm, *flags.from, fmt::join(names, ", ")));
}

int run(const PlanFlags& flags, CliContext& context) {
  if (flags.check) return print_check(check_bundle(*flags.check), flags.is_json);
  if (!flags.memory) throw ConfigError("memory: name what there is, such as --memory 80GiB");
  const std::int64_t memory_bytes = parse_byte_size("memory", *flags.memory);
  Experiment experiment = experiment_of(flags.experiment);
  for (const auto& [key, value] : experiment.settings) {
    if (key == "accumulation") {
      throw ConfigError("set: accumulation is what a plan finds; leave it out");
    }
  }
  const std::optional<RunConfig> of_arm = config_of_arm(flags);
  if (of_arm) {
    experiment.device = name_of(of_arm->device);
    experiment.model = of_arm->model;
    if (!experiment.ranks) experiment.ranks = static_cast<int>(of_arm->world_size);
  }
  // Planning is for a GPU that need not be here.
  if (!experiment.device) experiment.device = "cuda";
  if (!experiment.model) experiment.model = "gpt2-124m";
  const std::unique_ptr<Machine> machine = context.make_machine();
  const RunConfig baseline =
      baseline_of({.model = experiment.model, .device = experiment.device}, context, *machine);
  if (of_arm) {
    std::vector<std::pair<std::string, std::string>> settings = settings_beside(*of_arm, baseline);
    std::ranges::move(experiment.settings, std::back_inserter(settings));  // Later ones win.
    experiment.settings = std::move(settings);
  }
  RunConfig config = baseline_of(experiment, context, *machine);
  if (flags.global_batch) config.global_batch_size = *flags.global_batch;
  config.num_accumulation = 1;
  const bool holds_checkpoint = std::ranges::any_of(
      experiment.settings, [](const auto& setting) { return setting.first == "checkpoint"; });
  const std::vector<MeasuredRate> rates =
      flags.from ? rates_of(*flags.from) : std::vector<MeasuredRate>{};
  const BatchPlan plan = plan_batch(config, memory_bytes, holds_checkpoint, rates);
  if (flags.from && !flags.is_json && !plan.choices.front().step_ns) {
    std::cerr << "steplens: from: no arm of the same model, precision and attention was measured "
                 "there, so steps have no predicted time\n";
  }
  return print_plan(plan, flags.is_json);
}

}  // namespace

void add_plan_verb(CLI::App& app, CliContext& context, int& exit_code) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* verb = app.add_subcommand(
      "plan", "predict memory, and find the micro-batch and accumulation that hold a global batch");
  verb->footer(
      "Example:\n"
      "  steplens plan --model gpt2-124m --memory 80GiB --global-batch 512 --from runs/first\n"
      "  steplens plan --memory 80GiB --global-batch 512 --from runs/first --arm graph=on\n"
      "  steplens plan --model llama-1b --memory 24GiB --set attention=cudnn\n"
      "  steplens plan --check runs/first     predictions beside the measured peaks\n"
      "\n"
      "Exit code 1 if nothing fits, or a checked prediction is off by more than 5 %.");
  verb->add_option("--model", flags->experiment.model, "model (default gpt2-124m)");
  verb->add_option("--device", flags->experiment.device, "cpu | cuda (default cuda)");
  verb->add_option("--ranks", flags->experiment.ranks, "processes that share the global batch")
      ->check(CLI::PositiveNumber);
  verb->add_option("--set", flags->experiment.settings,
                   "key=value: change the config (repeatable); `steplens list keys`")
      ->allow_extra_args(false);
  verb->add_option("--memory", flags->memory, "memory of the device, such as 80GiB");
  verb->add_option("--global-batch", flags->global_batch,
                   "rows per optimizer step (default: the model's)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--from", flags->from, "bundle whose measured rates predict the step time");
  verb->add_option("--arm", flags->arm,
                   "plan for the settings of that arm of --from; --set changes them");
  verb->add_option("--check", flags->check, "compare predictions with a bundle's measured peaks");
  verb->add_flag("--json", flags->is_json, "print as JSON");
  verb->callback([flags, &context, &exit_code] { exit_code = run(*flags, context); });
}

}  // namespace steplens
