#include "harness/cli/experiment_flags.h"

#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/cli/locations.h"
#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

Device device_of(const Experiment& experiment, Machine& machine) {
  const std::string name = experiment.device.value_or("auto");
  if (name == "cpu") return Device::kCpu;
  if (name == "cuda") return Device::kCuda;
  if (name == "auto") return machine.gpus().empty() ? Device::kCpu : Device::kCuda;
  throw ConfigError(fmt::format("device={}: takes auto | cpu | cuda", name));
}

const ModelRow* find_model(const CliContext& context, std::string_view name) {
  const auto it = std::ranges::find(context.models, name, &ModelRow::name);
  return it == context.models.end() ? nullptr : &*it;
}

bool sets(const Experiment& experiment, std::string_view key) {
  return std::ranges::any_of(experiment.settings,
                             [&](const auto& setting) { return setting.first == key; });
}

}  // namespace

void add_work_flags(CLI::App& app, ExperimentFlags& flags) {
  app.add_option("--model", flags.model, "model to train; `steplens list models` shows all");
  app.add_option("--device", flags.device,
                 "auto | cpu | cuda (default auto: a GPU if there is one)");
  app.add_option("--ranks", flags.ranks,
                 "processes that train one model, data-parallel (default 1): over NCCL with a GPU "
                 "each, on CPUs over MPI")
      ->check(CLI::PositiveNumber);
  app.add_option("--set", flags.settings,
                 "key=value: change the baseline (repeatable); `steplens list keys`")
      ->allow_extra_args(false);
  app.add_option("--data", flags.data,
                 "token file (.bin); default: the corpus of `steplens data prepare`");
  app.add_option("--warmup", flags.warmup,
                 "warm-up steps of the baseline (default: found by pilots)")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", flags.steps,
                 "measured steps of the baseline (default: 30, or what fits 10 s)")
      ->check(CLI::PositiveNumber);
}

void add_machine_flags(CLI::App& app, MachineFlags& flags) {
  app.add_option("--gpu", flags.gpu, "UUID or PCI id of the GPU (default: the first free one)");
  app.add_flag("--allow-foreign-load", flags.allows_foreign_load,
               "measure beside other processes on the GPU");
  app.add_option("--block-timeout", flags.block_timeout_s,
                 "seconds after which a block is stopped (default 600)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--quiet", flags.is_quiet, "no progress");
}

void add_comparison_flags(CLI::App& app, ExperimentFlags& flags) {
  app.add_option("--experiment", flags.experiment_file,
                 "JSON file with the same words as these flags");
  app.add_option("--title", flags.title, "headline of the report");
  app.add_option("--toggles", flags.toggles,
                 "what to compare, one variable an arm: 'attention=math|cudnn,graph'");
  app.add_option("--grid", flags.grid, "cross two toggles: 'no_sync,accumulation=2|4'");
  app.add_option("--pairs", flags.pairs,
                 "each toggle alone and every two together, for what they give beyond their "
                 "product: 'attention=cudnn,optimizer=fused,graph=on'");
  app.add_option("--arms", flags.arms,
                 "other arms: baseline,torch-eager,mine=/path/to/executable, or this program with "
                 "several keys set: best:norm=fused+graph=on");
  app.add_option("--aa", flags.aa, "A/A: that many comparisons of the baseline with itself");
  app.add_option("--rounds", flags.rounds,
                 "rounds (default 12; 60 at most with --until-halfwidth)");
  app.add_option("--seed", flags.seed, "of the blocks' order (default 1)");
  app.add_option("--max-seconds", flags.max_seconds,
                 "stop at the end of a round before this is over")
      ->check(CLI::PositiveNumber);
  app.add_option(
      "--until-halfwidth", flags.until_halfwidth,
      "stop, from round 12 on, once every 95 % half-width is at most this, such as 0.2%");
  app.add_option("--trace-steps", flags.trace_steps,
                 "steps of the trace that each arm gets after the rounds (default 10; 0: none)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--graph-trace-steps", flags.graph_trace_steps,
                 "steps of one more trace of each arm, with one row a graph launch (default 0: "
                 "none)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--no-memory", flags.has_no_memory,
               "leave out the block that says who owns each arm's memory");
  app.add_flag("--no-counters", flags.has_no_counters,
               "leave out the block that samples the GPU's hardware counters under each arm");
  app.add_option("--equivalence", flags.equivalence,
                 "ratio within which arms count as equal (default 1.01)");
}

Experiment experiment_of(const ExperimentFlags& flags) {
  Experiment words;
  words.title = flags.title;
  words.model = flags.model;
  words.device = flags.device;
  words.ranks = flags.ranks;
  words.data = flags.data;
  for (const std::string& setting : flags.settings)
    words.settings.push_back(parse_setting(setting));
  if (flags.toggles) words.toggles = parse_toggle_choices(*flags.toggles);
  if (flags.grid) words.grid = parse_toggle_choices(*flags.grid);
  if (flags.pairs) words.pairs = parse_toggle_choices(*flags.pairs);
  if (flags.arms) words.arms = parse_external_arms(*flags.arms);
  words.aa = flags.aa;
  words.rounds = flags.rounds;
  words.seed = flags.seed;
  words.max_seconds = flags.max_seconds;
  if (flags.until_halfwidth) {
    words.until_halfwidth = parse_ratio("until-halfwidth", *flags.until_halfwidth);
  }
  if (flags.equivalence) words.equivalence = parse_ratio("equivalence", *flags.equivalence);
  words.warmup = flags.warmup;
  words.steps = flags.steps;
  words.trace_steps = flags.trace_steps;
  words.graph_trace_steps = flags.graph_trace_steps;
  if (flags.has_no_memory) words.memory = false;
  if (flags.has_no_counters) words.counters = false;
  return flags.experiment_file ? overlaid(read_experiment(*flags.experiment_file), words) : words;
}

RunConfig baseline_of(const Experiment& experiment, const CliContext& context, Machine& machine) {
  const Device device = device_of(experiment, machine);
  const std::string model =
      experiment.model.value_or(device == Device::kCuda ? "gpt2-124m" : "nano");
  RunConfig config = context.baseline_config(device, model);
  for (const auto& [key, value] : experiment.settings) {
    // Both decide the defaults of other keys.
    if (key == "model" || key == "device") {
      throw ConfigError(fmt::format("set: {0} is a flag of its own: --{0} {1}", key, value));
    }
    set_config_field(config, key, value);
  }
  if (experiment.ranks) config.world_size = *experiment.ranks;
  return config;
}

DataChoice data_of(const Experiment& experiment, const RunConfig& config,
                   const CliContext& context) {
  const ModelRow* model = find_model(context, config.model);
  const std::string tokenizer(model == nullptr ? "bytes" : model->tokenizer);
  if (experiment.data) return {.path = *experiment.data, .tokenizer = tokenizer};
  const fs::path wanted = default_data_path(config.dataset, tokenizer, config.shape.vocab_size);
  if (fs::exists(wanted)) return {.path = wanted, .tokenizer = tokenizer};
  // Bytes are real text too, and need no tokenizer: a model with a larger vocabulary trains on
  // them.
  const fs::path bytes = default_data_path(config.dataset, "bytes", config.shape.vocab_size);
  return {.path = bytes, .is_missing = !fs::exists(bytes), .tokenizer = tokenizer};
}

fs::path prepare_if_missing(const DataChoice& choice, const RunConfig& config,
                            const CliContext& context) {
  if (!choice.is_missing) return choice.path;
  const std::string command =
      choice.tokenizer == "bpe"
          ? fmt::format("steplens data prepare --tokenizer bpe --vocab-size {}",
                        config.shape.vocab_size)
          : "steplens data prepare";
  if (config.dataset != RunConfig{}.dataset) {
    throw ConfigError(
        fmt::format("data: {} is missing; name a token file with --data", choice.path.string()));
  }
  const fs::path site_packages = find_site_packages();
  if (site_packages.empty() || !context.prepare_data) {
    throw ConfigError(fmt::format(
        "data: {} is missing, and no LibTorch was found to make it from; run `{}`, or name a token "
        "file with --data",
        choice.path.string(), command));
  }
  std::cerr << "preparing the default corpus in " << choice.path.string() << '\n';
  context.prepare_data({.output = choice.path,
                        .name = config.dataset,
                        .site_packages = site_packages,
                        .scripts_folder = find_scripts_folder()});
  return choice.path;
}

void adopt_data(RunConfig& config, const Experiment& experiment, const nlohmann::json& data) {
  if (!data.is_object()) return;
  if (const auto name = data.find("name");
      name != data.end() && name->is_string() && !sets(experiment, "dataset")) {
    config.dataset = name->get<std::string>();
  }
  const auto max_token = data.find("max_token");
  if (max_token != data.end() && max_token->is_number_integer() &&
      max_token->get<std::int64_t>() >= config.shape.vocab_size) {
    throw ConfigError(fmt::format("data: holds token {}, and vocab_size={} of model {} ends before",
                                  max_token->get<std::int64_t>(), config.shape.vocab_size,
                                  config.model));
  }
}

MatrixRequest matrix_request(const Experiment& experiment, const RunConfig& baseline) {
  MatrixRequest request{
      .title = experiment.title.value_or(""),
      .baseline = baseline,
      .toggles = experiment.toggles,
      .grid = experiment.grid.value_or(std::vector<ToggleChoice>{}),
      .pairs = experiment.pairs.value_or(std::vector<ToggleChoice>{}),
      .external_arms = experiment.arms,
      .num_rounds = experiment.rounds,
      .seed = experiment.seed.value_or(1),
      .until_halfwidth_ratio = experiment.until_halfwidth,
      .equivalence_ratio = experiment.equivalence.value_or(1.01),
      .num_warmup_steps = experiment.warmup.value_or(0),
      .num_measured_steps = experiment.steps.value_or(0),
      .num_trace_steps = experiment.trace_steps.value_or(experiment.aa ? 0 : kDefaultTraceSteps),
      .num_graph_trace_steps = experiment.graph_trace_steps.value_or(0),
      .num_memory_steps = experiment.memory.value_or(!experiment.aa) ? kDefaultMemorySteps : 0,
      // A CPU's run says nothing of counters unless somebody asks.
      .num_counter_steps =
          experiment.counters.value_or(!experiment.aa && baseline.device == Device::kCuda)
              ? kDefaultCounterSteps
              : 0};
  if (experiment.aa) {
    // 0 would silently run the default matrix.
    if (*experiment.aa < 1)
      throw ConfigError(fmt::format("aa={}: takes an integer from 1 to 999", *experiment.aa));
    request.num_aa = *experiment.aa;
  }
  return request;
}

}  // namespace steplens
