#pragma once

#include <filesystem>

#include "reports/compare.h"
#include "reports/results.h"
#include "reports/verify.h"

namespace CLI {
class App;
}

namespace steplens {

/// Computes a bundle's results and writes results.json, report.md with its plots, and report.html,
/// each atomically. What the scheduler's end calls. ConfigError if the folder is no bundle, is
/// damaged, or cannot be written.
Results write_report(const std::filesystem::path& bundle);

/// Prints where a step's time goes in one trace file, ours or another program's. Returns 5 if the
/// trace lost data, else 0.
int print_trace(const std::filesystem::path& path, bool is_json);

struct ReportOptions {
  std::filesystem::path bundle;   // Or a trace's file: that is only printed.
  bool is_json = false;           // Print results.json instead of the table.
  bool rewrites_results = false;  // Replace a results.json that says something else.
  bool writes_files = true;
};
/// Prints the matrix and writes report.md, its plots and report.html; results.json only where it is
/// missing or asked for, so that a stored one stays what `verify` can judge. Returns 0. ConfigError
/// as above.
int report_verb(const ReportOptions& options);

struct VerifyVerbOptions {
  std::filesystem::path bundle;
  bool is_json = false;
  VerifyOptions verify;
};
/// Prints what is wrong with a bundle. Returns 0 if nothing is, else 1.
int verify_verb(const VerifyVerbOptions& options);

struct CompareVerbOptions {
  std::filesystem::path baseline;
  std::filesystem::path candidate;
  bool is_json = false;
  bool has_annotations = false;  // For GitHub Actions, behind the table.
  CompareOptions compare;
};
/// Prints two bundles side by side. Returns 1 if the second has a regression, else 0.
int compare_verb(const CompareVerbOptions& options);

/// Adds `report`, `verify`, `compare`, `history`, `scale`, `export`, `import` and `advise` to the
/// program. The chosen one runs when `app` has parsed its arguments and puts its result in
/// `exit_code`, which must outlive `app`. ConfigError passes through; `main` makes exit code 2 of
/// it.
void add_report_verbs(CLI::App& app, int& exit_code);

}  // namespace steplens
