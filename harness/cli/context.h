#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/machine.h"
#include "harness/plan.h"
#include "harness/run_config.h"

namespace CLI {
class App;
}

namespace steplens {

/// A model as `steplens list models` shows it.
struct ModelRow {
  std::string_view name;
  std::string_view summary;
  std::int64_t num_parameters = 0;
  std::int64_t sequence_length = 0;
  std::int64_t global_batch_size = 0;
  std::string_view tokenizer;  // "bytes" or "bpe".
  std::int64_t vocab_size = 0;
};

/// A number of a report as `steplens list metrics` shows it.
struct MetricRow {
  std::string_view name;  // Its JSON key; the unit is the last part.
  std::string_view unit;
  std::string_view title;   // Of its column.
  std::string_view record;  // The JSON that has it.
  std::string_view meaning;
  std::string_view formula;
  std::string_view source;
};

/// What `steplens data prepare` is asked to do.
struct DataRequest {
  std::vector<std::filesystem::path> inputs;  // Empty: the Python sources of LibTorch's wheel.
  std::vector<std::string> patterns;          // Globs of file names; empty: all files.
  std::filesystem::path output;               // The .bin.
  std::string name;
  std::string tokenizer = "bytes";
  std::int64_t vocab_size = 50304;           // For "bpe".
  std::filesystem::path python = "python3";  // For "bpe": one that can import `tokenizers`.
  std::filesystem::path site_packages;       // For the default corpus.
  std::filesystem::path scripts_folder;
};

struct DoctorRequest {
  std::filesystem::path site_packages;  // Empty: none found.
  std::filesystem::path worker;         // Empty: none found.
  std::filesystem::path output_folder;
};

/// Text for a person and the same for a program.
struct Printout {
  std::string text;
  nlohmann::json json;
};

/// What the verbs need from the other folders. `main` fills it: harness/ knows none of them.
struct CliContext {
  PlanVocabulary vocabulary;
  std::vector<ModelRow> models;
  std::vector<MetricRow> metrics;
  /// Baseline of a device and model. ConfigError for an unknown model names the nearest one.
  RunConfig (*baseline_config)(Device device, std::string_view model) = nullptr;
  std::function<std::unique_ptr<Machine>()> make_machine;
  /// Prepares a token file and returns the JSON that lies beside it.
  std::function<Printout(const DataRequest&)> prepare_data;
  std::function<Printout(const DoctorRequest&)> run_doctor;
  /// Writes results.json and the reports of a finished bundle, and returns what to print.
  std::function<Printout(const std::filesystem::path& bundle)> write_report;
  /// Holds the effects of a bundle that was run again against those of the original.
  struct Reproduced {
    Printout printout;
    bool is_reproduced = false;
  };
  std::function<Reproduced(const std::filesystem::path& original,
                           const std::filesystem::path& copy)>
      compare_reproduction;
  /// Prints what a trace file shows; returns the exit code.
  std::function<int(const std::filesystem::path& trace, bool is_json)> print_trace;
  /// Adds the verbs that read bundles: report, verify, ...; their callbacks set the exit code.
  std::function<void(CLI::App& app, int& exit_code)> add_report_verbs;
};

/// The program: parses, runs one verb, and returns the exit code. Errors are one line on stderr.
int run_cli(int argc, const char* const* argv, CliContext& context);

/// Exit codes of every verb.
enum ExitCode : std::uint8_t {
  kExitOk = 0,
  kExitFailed = 1,      // A regression, or a verification that failed.
  kExitUser = 2,        // The user's mistake.
  kExitDevice = 3,      // The device failed, or is in use by others.
  kExitIncomplete = 4,  // Stopped before the end; --resume goes on.
  kExitDataLost = 5,    // A trace lost data.
};

}  // namespace steplens
