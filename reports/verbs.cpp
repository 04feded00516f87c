#include "reports/verbs.h"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "reports/effect_plot.h"
#include "reports/markdown.h"
#include "reports/matrix_table.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

void write_documents(const Bundle& bundle, const Results& results) {
  const std::string svg = effects_svg(results);
  if (!svg.empty()) write_file_atomically(bundle.folder / kEffectsFileName, svg);
  write_file_atomically(bundle.folder / kReportFileName,
                        report_markdown({.bundle = bundle, .results = results}));
}

// Whether the stored results.json says what the blocks say. A damaged one does not.
bool agrees(const fs::path& path, const Results& results) {
  try {
    return differences(read_json(path), to_json(results), VerifyOptions{}.tolerance_ratio).empty();
  } catch (const ConfigError&) {
    return false;
  }
}

std::string dumped(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Results write_report(const fs::path& folder) {
  const Bundle bundle = open_bundle(folder);
  Results results = compute_results(bundle);
  write_json_atomically(folder / kResultsFileName, to_json(results));
  write_documents(bundle, results);
  return results;
}

int report_verb(const ReportOptions& options) {
  const Bundle bundle = open_bundle(options.bundle);
  const Results results = compute_results(bundle);
  const fs::path results_path = options.bundle / kResultsFileName;
  const bool is_stored = fs::exists(results_path);
  if (options.writes_files) {
    if (!is_stored || options.rewrites_results) {
      write_json_atomically(results_path, to_json(results));
    }
    write_documents(bundle, results);
  }
  if (options.is_json) {
    fmt::print("{}", dumped(to_json(results)));
  } else {
    fmt::print("{}", matrix_text(results));
    for (const std::string& warning : results.warnings) {
      fmt::print("{}", wrap("warning: " + warning, 2) + "\n");
    }
    if (options.writes_files) {
      fmt::print("\nWritten: {}\n", (options.bundle / kReportFileName).string());
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
  const std::vector<std::string> problems = verify(options.bundle, options.verify);
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
  return comparison.has_regression ? 1 : 0;
}

void add_report_verbs(CLI::App& app, int& exit_code) {
  auto report = std::make_shared<ReportOptions>();
  CLI::App* report_app =
      app.add_subcommand("report", "print a bundle's matrix and write report.md");
  report_app->add_option("bundle", report->bundle, "folder of the bundle")->required();
  report_app->add_flag("--json", report->is_json, "print results.json instead of the table");
  report_app->add_flag("--rewrite-results", report->rewrites_results,
                       "replace a results.json that is there already");
  report_app->add_flag("!--no-write", report->writes_files, "only print, write no file");
  report_app->footer("Example: steplens report runs/first");
  report_app->callback([report, &exit_code] { exit_code = report_verb(*report); });

  auto verification = std::make_shared<VerifyVerbOptions>();
  CLI::App* verify_app =
      app.add_subcommand("verify", "recompute a bundle's results from its raw blocks");
  verify_app->add_option("bundle", verification->bundle, "folder of the bundle")->required();
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
  compare_app->add_flag("--json", comparison->is_json, "print a JSON object");
  compare_app->footer(
      "Exit code 1 if an arm of the second got slower by more than the threshold, or its verdict "
      "worse.\nExample: steplens compare runs/before runs/after --threshold 0.01");
  compare_app->callback([comparison, &exit_code] { exit_code = compare_verb(*comparison); });
}

}  // namespace steplens
