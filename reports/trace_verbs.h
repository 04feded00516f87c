#pragma once

#include <filesystem>
#include <string>

#include "harness/trace/trace.h"

namespace CLI {
class App;
}

namespace steplens {

struct ExportVerbOptions {
  std::filesystem::path input;  // A trace.slt, a folder that holds one, or a bundle.
  /// "chrome", "sqlite", "csv"; empty: as the end of `output` says. Of a bundle "csv", "mllog",
  /// "benchmark".
  std::string format;
  std::filesystem::path output;  // Empty: beside the trace, or in the bundle.
};
/// Writes a trace, or a bundle's results, in another program's format. Returns 5 if the trace lost
/// data, which it says, else 0. ConfigError names the file or flag and what is wrong with it.
int export_verb(const ExportVerbOptions& options);

struct ImportVerbOptions {
  std::filesystem::path input;   // JSON, gzipped JSON or SQLite: its content decides.
  std::filesystem::path output;  // Empty: beside the input.
};
/// Writes another program's trace as trace.slt. Returns 5 if the file says or shows that it lost
/// data, else 0. ConfigError as above.
int import_verb(const ImportVerbOptions& options);

/// A trace of ours, or another program's by its content: Chrome JSON or SQLite. ConfigError as
/// above.
Trace read_any_trace(const std::filesystem::path& path);

/// Adds `export` and `import` to the program; see add_report_verbs.
void add_trace_verbs(CLI::App& app, int& exit_code);

}  // namespace steplens
