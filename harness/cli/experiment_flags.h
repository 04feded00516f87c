#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/context.h"
#include "harness/experiment.h"

namespace steplens {

/// Flags that say what a matrix compares. Bound to an App by `add_experiment_flags`.
struct ExperimentFlags {
  std::optional<std::string> experiment_file;
  std::optional<std::string> title;
  std::optional<std::string> model;
  std::optional<std::string> device;
  std::optional<int> ranks;
  std::optional<std::string> data;
  std::vector<std::string> settings;
  std::optional<std::string> toggles;
  std::optional<std::string> grid;
  std::optional<std::string> pairs;
  std::optional<std::string> arms;
  std::optional<int> aa;
  std::optional<int> rounds;
  std::optional<std::uint64_t> seed;
  std::optional<double> max_seconds;
  std::optional<std::string> until_halfwidth;
  std::optional<std::string> equivalence;
  std::optional<std::int64_t> warmup;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> trace_steps;
  std::optional<std::int64_t> graph_trace_steps;
  bool has_no_memory = false;
  bool has_no_counters = false;
};

/// Where and how blocks run, whatever they measure.
struct MachineFlags {
  std::string gpu;  // UUID or PCI id; empty: the first free one.
  double block_timeout_s = 600;
  bool allows_foreign_load = false;
  bool is_quiet = false;
};
/// --gpu, --allow-foreign-load, --block-timeout, --quiet.
void add_machine_flags(CLI::App& app, MachineFlags& flags);

/// Flags that decide the work of every arm: model, device, settings, data, steps.
void add_work_flags(CLI::App& app, ExperimentFlags& flags);
/// Flags that decide what is compared, and how often.
void add_comparison_flags(CLI::App& app, ExperimentFlags& flags);

/// The flags in words, over the experiment file if one is named.
Experiment experiment_of(const ExperimentFlags& flags);

/// Device and baseline that `experiment` asks for: default device auto, default model nano on a CPU
/// and gpt2-124m on a GPU, with every setting applied.
RunConfig baseline_of(const Experiment& experiment, const CliContext& context, Machine& machine);

/// The token file for `config`: what `experiment` names, else the default one.
struct DataChoice {
  std::filesystem::path path;
  bool is_missing = false;  // The default one, which nobody has prepared yet.
  std::string tokenizer;    // That it should have.
};
DataChoice data_of(const Experiment& experiment, const RunConfig& config,
                   const CliContext& context);

/// Prepares the default corpus of bytes if `choice` is missing and LibTorch's folder is known.
/// ConfigError with the command to run if it is not.
std::filesystem::path prepare_if_missing(const DataChoice& choice, const RunConfig& config,
                                         const CliContext& context);

/// Puts the corpus's name into `config`, unless the user set one. ConfigError if it has tokens that
/// the model's vocabulary lacks.
void adopt_data(RunConfig& config, const Experiment& experiment, const nlohmann::json& data);

/// What `experiment` asks to compare, over `baseline`.
MatrixRequest matrix_request(const Experiment& experiment, const RunConfig& baseline);

}  // namespace steplens
