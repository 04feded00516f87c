#include "reports/verbs.h"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/trace/trace_reader.h"
#include "reports/advice/advice_verb.h"
#include "reports/breakdown/breakdown_parts.h"
#include "reports/breakdown/read_traced_arms.h"
#include "reports/counters/counter_parts.h"
#include "reports/history.h"
#include "reports/html/html_page.h"
#include "reports/interactions/interactions.h"
#include "reports/markdown.h"
#include "reports/matrix_table.h"
#include "reports/memory/memory_parts.h"
#include "reports/pairs.h"
#include "reports/recipe/recipe_report.h"
#include "reports/roofline/roofline_parts.h"
#include "reports/scale/scale_verb.h"
#include "reports/sweep/sweep_results.h"
#include "reports/trace_verbs.h"
#include "reports/verify_series.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// The account of every arm with a memory block, in the table's order. A trace that cannot be read
// is not worth the report: its reason goes to `stderr`.
std::vector<MemoryArm> read_memory_arms(const Bundle& bundle, const Results& results) {
  std::vector<MemoryArm> arms;
  for (const ArmResult* row : table_order(results)) {
    const fs::path path = trace_path(bundle, row->name, BlockKind::kMemory);
    if (path.empty()) continue;
    try {
      MemoryArm arm = memory_arm(read_trace(path));
      arm.arm = row->name;
      arm.reference = row->reference;
      arm.throughput_step_ns = row->step_wall_ns;
      const BlockRecord* block = find_memory(bundle, row->name);
      if (block != nullptr && block->steps.size() > 0) arm.step_ns = mean_step_wall_ns(*block);
      arms.push_back(std::move(arm));
    } catch (const ConfigError& error) {
      fmt::print(stderr, "steplens: no memory account of {}: {}\n", row->name, error.what());
    }
  }
  return arms;
}

// The counters of every arm with such a block, likewise.
std::vector<CounterArm> read_counter_arms(const Bundle& bundle, const Results& results) {
  std::vector<CounterArm> arms;
  for (const ArmResult* row : table_order(results)) {
    const fs::path path = trace_path(bundle, row->name, BlockKind::kCounters);
    if (path.empty()) continue;
    try {
      const Trace trace = read_trace(path);
      CounterArm arm{.arm = row->name,
                     .summary = summarize_counters(trace),
                     .throughput_step_ns = row->step_wall_ns};
      // On the device's clock, as for traces: the host ends the recording in its last step.
      const double step_ns = compute_breakdown(trace).mean_step_ns();
      if (step_ns > 0) arm.step_ns = step_ns;
      arms.push_back(std::move(arm));
    } catch (const ConfigError& error) {
      fmt::print(stderr, "steplens: no hardware counters of {}: {}\n", row->name, error.what());
    }
  }
  return arms;
}

// report.md, the pictures that it shows, and report.html, which has them inside.
void write_documents(const ReportInput& input) {
  const ReportDocument document = make_document(input);
  const fs::path& folder = input.bundle.folder;
  for (const ReportDocument::Chapter& chapter : document.chapters) {
    for (const Part& part : chapter.parts) {
      const Image* image = std::get_if<Image>(&part);
      if (image == nullptr || image->file_name.empty()) continue;
      write_file_atomically(folder / image->file_name, image->svg);
    }
  }
  write_file_atomically(folder / kReportFileName, report_markdown(document));
  write_file_atomically(folder / kHtmlFileName, report_html(document));
}

// Whether the stored results.json says what the blocks say. A damaged one does not.
bool agrees(const fs::path& path, const Results& results) {
  try {
    return differences(read_json(path), to_json(results), VerifyOptions{}.tolerance_ratio).empty();
  } catch (const ConfigError&) {
    return false;
  }
}

void print_counters(const CounterArm& arm) {
  const std::vector<CounterArm> arms = {arm};
  if (const Table table = counter_table(arms); !table.rows.empty()) {
    fmt::print("\n{}\n{}", to_text(table), to_text(counter_phase_table(arms)));
  }
  for (const std::string& note : counter_notes(arms)) {
    fmt::print("\n{}\n", wrap("counters of " + note, 2));
  }
}

void print_roofline(const Roofline& roofline) {
  if (roofline.is_empty()) return;
  for (const Table& table : {rated_kernel_table(roofline), rated_part_table(roofline)}) {
    if (!table.rows.empty()) fmt::print("\n{}", to_text(table));
  }
  for (const std::string& note : roofline_notes(roofline)) fmt::print("\n{}\n", wrap(note, 2));
}

std::string dumped(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Results write_report(const fs::path& folder) {
  const Bundle bundle = open_bundle(folder);
  Results results = compute_results(bundle);
  write_json_atomically(folder / kResultsFileName, to_json(results));
  const std::vector<TracedArm> traced_arms = read_traced_arms(bundle, results);
  const std::vector<MemoryArm> memory_arms = read_memory_arms(bundle, results);
  const std::vector<CounterArm> counter_arms = read_counter_arms(bundle, results);
  write_documents({.bundle = bundle,
                   .results = results,
                   .traced_arms = traced_arms,
                   .memory_arms = memory_arms,
                   .counter_arms = counter_arms});
  return results;
}

int print_trace(const fs::path& path, bool is_json) {
  const Trace trace = read_any_trace(path);
  const Breakdown breakdown = compute_breakdown(trace);
  const CounterSummary counters = summarize_counters(trace);
  const Roofline roofline = compute_roofline(trace, breakdown);
  if (is_json) {
    nlohmann::json json = to_json(breakdown);
    if (!roofline.is_empty()) json["roofline"] = to_json(roofline);
    if (!counters.counters.empty()) json["hardware_counters"] = to_json(counters);
    fmt::print("{}", dumped(json));
  } else {
    const std::string arm = trace.info.value("arm", path.stem().string());
    const std::vector<TracedArm> arms = {
        {.arm = arm, .breakdown = breakdown, .communication = compute_communication(trace)}};
    fmt::print("{}", breakdown_text(arms));
    const Table kernels = kernel_table(breakdown);
    if (!kernels.rows.empty()) fmt::print("\n{}", to_text(kernels));
    print_roofline(roofline);
    if (!counters.counters.empty()) print_counters({.arm = arm, .summary = counters});
    const std::string reason = trace.info.value("cuda_absent_reason", "");
    if (!reason.empty() && trace.gpu_ops.empty())
      fmt::print("\nNo GPU in this trace: {}.\n", reason);
  }
  return breakdown.has_lost_data ? 5 : 0;
}

int report_verb(const ReportOptions& options) {
  std::error_code error;
  if (fs::is_regular_file(options.bundle, error)) {
    return print_trace(options.bundle, options.is_json);
  }
  if (is_recipe(options.bundle)) {
    const RecipeResults recipe =
        options.writes_files ? write_recipe_report(options.bundle) : compute_recipe(options.bundle);
    fmt::print("{}", options.is_json ? dumped(to_json(recipe)) : recipe_text(recipe));
    return 0;
  }
  if (is_sweep(options.bundle)) {
    const SweepResults sweep =
        options.writes_files ? write_sweep_report(options.bundle) : compute_sweep(options.bundle);
    fmt::print("{}", options.is_json ? dumped(to_json(sweep)) : sweep_text(sweep));
    return 0;
  }
  const Bundle bundle = open_bundle(options.bundle);
  const Results results = compute_results(bundle);
  const std::vector<TracedArm> traced_arms = read_traced_arms(bundle, results);
  const std::vector<MemoryArm> memory_arms = read_memory_arms(bundle, results);
  const std::vector<CounterArm> counter_arms = read_counter_arms(bundle, results);
  const fs::path results_path = options.bundle / kResultsFileName;
  const bool is_stored = fs::exists(results_path);
  if (options.writes_files) {
    if (!is_stored || options.rewrites_results) {
      write_json_atomically(results_path, to_json(results));
    }
    write_documents({.bundle = bundle,
                     .results = results,
                     .traced_arms = traced_arms,
                     .memory_arms = memory_arms,
                     .counter_arms = counter_arms});
  }
  if (options.is_json) {
    fmt::print("{}", dumped(to_json(results)));
  } else {
    fmt::print("{}", matrix_text(results));
    for (const std::string& warning : results.warnings) {
      fmt::print("{}", wrap("warning: " + warning, 2) + "\n");
    }
    fmt::print("{}", interaction_text(compute_interactions(bundle, results.rule)));
    if (!traced_arms.empty()) fmt::print("\n{}", breakdown_text(traced_arms));
    if (const Table memory = memory_table(memory_arms); !memory.rows.empty()) {
      fmt::print("\n{}", to_text(memory));
    }
    if (const Table counters = counter_table(counter_arms); !counters.rows.empty()) {
      fmt::print("\n{}", to_text(counters));
    }
    if (options.writes_files) {
      fmt::print("\nWritten: {} and {}\n", (options.bundle / kReportFileName).string(),
                 kHtmlFileName);
    }
  }
  if (is_stored && !options.rewrites_results && !agrees(results_path, results)) {
    fmt::print(stderr,
               "{}: says something else than the blocks; `steplens verify` says where, "
               "--rewrite-results replaces it\n",
               results_path.string());
  }
  return 0;
}

int verify_verb(const VerifyVerbOptions& options) {
  const bool is_series = is_sweep(options.bundle) || is_recipe(options.bundle);
  const std::vector<std::string> problems = is_series
                                                ? verify_series(options.bundle, options.verify)
                                                : verify(options.bundle, options.verify);
  if (options.is_json) {
    fmt::print("{}", dumped({{"is_verified", problems.empty()}, {"problems", problems}}));
  } else if (problems.empty()) {
    fmt::print("{}: verified\n", options.bundle.string());
  } else {
    fmt::print("{}: NOT verified, {} problems\n", options.bundle.string(), problems.size());
    for (const std::string& problem : problems) fmt::print("{}\n", wrap("- " + problem, 2));
  }
  return problems.empty() ? 0 : 1;
}

int compare_verb(const CompareVerbOptions& options) {
  const BundleComparison comparison = compare_bundles(
      open_bundle(options.baseline), open_bundle(options.candidate), options.compare);
  if (options.is_json) {
    fmt::print("{}", dumped(to_json(comparison)));
    return comparison.has_regression ? 1 : 0;
  }
  for (const std::string& difference : comparison.differences) {
    fmt::print("{}\n", wrap("differs: " + difference, 2));
  }
  if (!comparison.differences.empty()) fmt::print("\n");
  fmt::print("{}", to_text(comparison_table(comparison)));
  for (const ArmComparison& arm : comparison.arms) {
    if (!arm.reason.empty())
      fmt::print("{}\n", wrap(fmt::format("{}: {}", arm.name, arm.reason), 2));
  }
  fmt::print("\n{}\n", comparison.has_regression ? "REGRESSION" : "No regression is proven.");
  if (options.has_annotations) fmt::print("{}", github_annotations(comparison));
  return comparison.has_regression ? 1 : 0;
}

void add_report_verbs(CLI::App& app, int& exit_code) {
  auto report = std::make_shared<ReportOptions>();
  CLI::App* report_app =
      app.add_subcommand("report", "print a bundle's matrix and write report.md and report.html");
  report_app
      ->add_option("bundle", report->bundle,
                   "folder of the bundle; or a trace's file, ours or another program's: its "
                   "breakdown is printed")
      ->required();
  report_app->add_flag("--json", report->is_json, "print results.json instead of the table");
  report_app->add_flag("--rewrite-results", report->rewrites_results,
                       "replace a results.json that is there already");
  report_app->add_flag("!--no-write", report->writes_files, "only print, write no file");
  report_app->footer(
      "Examples:\n"
      "  steplens report runs/first\n"
      "  steplens report worker0.pt.trace.json.gz    where the time goes in a trace of "
      "torch.profiler");
  report_app->callback([report, &exit_code] { exit_code = report_verb(*report); });

  auto verification = std::make_shared<VerifyVerbOptions>();
  CLI::App* verify_app =
      app.add_subcommand("verify", "recompute a bundle's results from its raw blocks");
  verify_app->add_option("bundle", verification->bundle, "folder of a bundle, a sweep or a recipe")
      ->required();
  verify_app->add_flag("--json", verification->is_json, "print a JSON object");
  verify_app->footer("Exit code 1 if anything is wrong.\nExample: steplens verify runs/first");
  verify_app->callback([verification, &exit_code] { exit_code = verify_verb(*verification); });

  auto comparison = std::make_shared<CompareVerbOptions>();
  CLI::App* compare_app =
      app.add_subcommand("compare", "compare two bundles and find what got slower");
  compare_app->add_option("first", comparison->baseline, "folder of the bundle to compare with")
      ->required();
  compare_app->add_option("second", comparison->candidate, "folder of the newer bundle")
      ->required();
  compare_app
      ->add_option("--threshold", comparison->compare.threshold_ratio,
                   "smallest loss of rate that counts, as a ratio")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  compare_app
      ->add_option("--confidence", comparison->compare.confidence,
                   "of the interval of the rates' ratio that must lie below 1")
      ->check(CLI::Range(0.5, 0.9999))
      ->capture_default_str();
  compare_app
      ->add_option("--memory-threshold", comparison->compare.memory_threshold_ratio,
                   "growth of peak memory that counts, as a ratio (default: memory never does)")
      ->check(CLI::Range(0.0, 100.0));
  compare_app->add_flag("--json", comparison->is_json, "print a JSON object");
  compare_app->add_flag("--github", comparison->has_annotations,
                        "print annotations of GitHub Actions too: ::error for a regression");
  compare_app->footer(
      "Exit code 1 if an arm of the second got slower by more than the threshold, or its verdict "
      "worse.\nExamples:\n"
      "  steplens compare runs/before runs/after --threshold 0.01\n"
      "  steplens compare runs/main runs/branch --memory-threshold 0.05 --github   a gate in CI");
  compare_app->callback([comparison, &exit_code] { exit_code = compare_verb(*comparison); });

  add_scale_verb(app, exit_code);
  auto history = std::make_shared<HistoryVerbOptions>();
  CLI::App* history_app =
      app.add_subcommand("history", "the effects of all bundles in a folder, from old to new");
  history_app->add_option("folder", history->folder, "folder with bundles in or below it")
      ->required();
  history_app->add_option("--svg", history->picture, "write a picture of the effects");
  history_app->add_flag("--json", history->is_json, "print a JSON object");
  history_app->footer(
      "CHANGED: the interval has no value in common with that of the bundle before. Exit code 1 if "
      "a\nbundle could not be read.\nExample: steplens history runs --svg history.svg");
  history_app->callback([history, &exit_code] { exit_code = history_verb(*history); });

  add_trace_verbs(app, exit_code);
  add_advice_verb(app, exit_code);
}

}  // namespace steplens
