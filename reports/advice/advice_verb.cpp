#include "reports/advice/advice_verb.h"

#include <memory>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/trace/trace_reader.h"
#include "reports/advice/advice.h"
#include "reports/matrix_table.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// A trace that cannot be read takes its evidence with it, and says so.
std::optional<Trace> trace_of(const Bundle& bundle, const std::string& arm, BlockKind kind) {
  const fs::path path = trace_path(bundle, arm, kind);
  if (path.empty()) return std::nullopt;
  try {
    return read_trace(path);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "steplens: {} of {} is left out: {}\n", name_of(kind), arm, error.what());
    return std::nullopt;
  }
}

std::vector<Finding> advise_arm(const Bundle& bundle, const Results& results,
                                const std::string& arm) {
  std::vector<TracedArm> traces;
  std::vector<CounterArm> counters;
  const ArmResult* row = find_arm(results, arm);
  if (const std::optional<Trace> trace = trace_of(bundle, arm, BlockKind::kTrace)) {
    traces.push_back({.arm = arm,
                      .reference = row == nullptr ? "" : row->reference,
                      .breakdown = compute_breakdown(*trace),
                      .throughput_step_ns = row == nullptr ? std::nullopt : row->step_wall_ns});
  }
  if (const std::optional<Trace> trace = trace_of(bundle, arm, BlockKind::kCounters)) {
    counters.push_back({.arm = arm, .summary = summarize_counters(*trace)});
  }
  return advise(advice_input(bundle, results, arm, traces, counters));
}

std::vector<std::string> arms_of(const Results& results, const std::string& wanted) {
  std::vector<std::string> names;
  for (const ArmResult* row : table_order(results)) {
    if (row->is_applicable) names.push_back(row->name);
  }
  if (wanted == "all") return names;
  if (wanted.empty()) {
    const ArmResult* baseline = baseline_of(results);
    if (baseline == nullptr) throw ConfigError("the bundle has no arms");
    return {baseline->name};
  }
  if (find_arm(results, wanted) == nullptr) {
    throw ConfigError(
        fmt::format("arm: '{}' is unknown; allowed: all, {}", wanted, fmt::join(names, ", ")));
  }
  return {wanted};
}

struct ArmAdvice {
  std::string arm;
  std::vector<Finding> findings;
};

std::vector<ArmAdvice> advice_of_bundle(const AdviceVerbOptions& options) {
  const Bundle bundle = open_bundle(options.path);
  const Results results = compute_results(bundle);
  std::vector<ArmAdvice> advice;
  for (const std::string& arm : arms_of(results, options.arm)) {
    advice.push_back({.arm = arm, .findings = advise_arm(bundle, results, arm)});
  }
  return advice;
}

std::vector<ArmAdvice> advice_of_trace(const AdviceVerbOptions& options) {
  if (!options.arm.empty()) throw ConfigError("arm: a trace is of one arm; name a bundle");
  const fs::path path =
      fs::is_directory(options.path) ? options.path / kTraceFileName : options.path;
  const Trace trace = read_trace(path);
  const std::string arm = trace.info.value("arm", path.stem().string());
  const TracedArm traced = {.arm = arm, .breakdown = compute_breakdown(trace)};
  const CounterSummary counters = summarize_counters(trace);
  std::optional<RunConfig> config;
  if (const auto it = trace.info.find("config"); it != trace.info.end() && it->is_object()) {
    config = run_config_from_json(*it);
  }
  const AdviceInput input{.arm = arm,
                          .config = config ? &*config : nullptr,
                          .trace = &traced,
                          .counters = counters.has_numbers() ? &counters : nullptr};
  return {{.arm = arm, .findings = advise(input)}};
}

}  // namespace

int advice_verb(const AdviceVerbOptions& options) {
  if (!fs::exists(options.path)) {
    throw ConfigError(fmt::format("{}: does not exist", options.path.string()));
  }
  const std::vector<ArmAdvice> advice = fs::exists(options.path / "manifest.json")
                                            ? advice_of_bundle(options)
                                            : advice_of_trace(options);
  if (options.is_json) {
    nlohmann::json json = nlohmann::json::array();
    for (const auto& [arm, findings] : advice) {
      json.push_back({{"arm", arm}, {"findings", to_json(findings)}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  bool is_first = true;
  for (const auto& [arm, findings] : advice) {
    fmt::print("{}{}: {}\n", is_first ? "" : "\n", arm,
               findings.empty() ? "nothing found" : fmt::format("{} findings", findings.size()));
    if (!findings.empty()) fmt::print("\n{}", advice_text(findings));
    is_first = false;
  }
  return 0;
}

void add_advice_verb(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<AdviceVerbOptions>();
  CLI::App* verb = app.add_subcommand(
      "advise", "say what a bundle or a trace suggests to try next, with evidence and a bound");
  verb->add_option("path", options->path, "a bundle, a trace.slt, or the folder of a traced block")
      ->required();
  verb->add_option("--arm", options->arm, "arm of the bundle, or all (default: the baseline)");
  verb->add_flag("--json", options->is_json, "print a JSON array, one object an arm");
  std::string rules;
  for (const AdviceRule& rule : all_advice_rules()) {
    rules += fmt::format("  {}: {}\n", rule.key, rule.summary);
  }
  verb->footer(
      "A gain \"at best\" is an upper bound from where the step's time goes: what a switch really "
      "gives, a matrix says.\n\nRules:\n" +
      rules +
      "\nExamples:\n"
      "  steplens advise runs/first\n"
      "  steplens advise runs/first --arm accumulation=4\n"
      "  steplens advise trace.slt --json");
  verb->callback([options, &exit_code] { exit_code = advice_verb(*options); });
}

}  // namespace steplens
