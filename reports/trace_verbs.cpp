#include "reports/trace_verbs.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/context.h"
#include "harness/error.h"
#include "harness/trace/trace_reader.h"
#include "harness/trace/trace_writer.h"
#include "reports/export/bundle_formats.h"
#include "reports/export/chrome_json.h"
#include "reports/export/csv.h"
#include "reports/export/sqlite.h"
#include "reports/format.h"
#include "reports/import/chrome_import.h"
#include "reports/import/sqlite_import.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

struct Format {
  std::string_view name;
  std::vector<std::string_view> endings;  // The first one is the default.
  void (*write)(const fs::path&, const Trace&, const RowProgress&);
};

const std::vector<Format>& formats() {
  static const std::vector<Format> table = {{"chrome", {".json", ".json.gz"}, write_chrome_json},
                                            {"sqlite", {".sqlite", ".db"}, write_sqlite},
                                            {"csv", {".csv", ".csv.gz"}, write_csv}};
  return table;
}

const Format& format_of(const ExportVerbOptions& options) {
  std::vector<std::string_view> names;
  std::vector<std::string_view> endings;
  const std::string output = options.output.string();
  for (const Format& format : formats()) {
    if (options.format == format.name) return format;
    names.push_back(format.name);
    for (const std::string_view ending : format.endings) {
      if (options.format.empty() && output.ends_with(ending)) return format;
      endings.push_back(ending);
    }
  }
  if (!options.format.empty()) {
    throw ConfigError(fmt::format("format: '{}' is unknown; allowed: {}", options.format,
                                  fmt::join(names, ", ")));
  }
  if (output.empty()) return formats().front();
  throw ConfigError(
      fmt::format("out: the end of {} names no format; allowed: {}; or name one with --format {}",
                  output, fmt::join(endings, ", "), fmt::join(names, "|")));
}

// Of a bundle's results.
struct BundleFormat {
  std::string_view name;
  std::string_view file_name;  // Beside report.md.
  void (*write)(const fs::path&, const Bundle&, const Results&);
};

constexpr BundleFormat kBundleFormats[] = {{"csv", "results.csv", write_results_csv},
                                           {"mllog", "mllog.txt", write_mllog},
                                           {"benchmark", "benchmark.json", write_benchmark_json}};

int export_bundle(const ExportVerbOptions& options) {
  std::vector<std::string_view> names;
  for (const BundleFormat& format : kBundleFormats) names.push_back(format.name);
  const auto* const format =
      std::ranges::find(kBundleFormats, std::string_view(options.format), &BundleFormat::name);
  if (format == std::end(kBundleFormats)) {
    throw ConfigError(fmt::format("format: '{}' is none for a bundle; name one with --format {}",
                                  options.format, fmt::join(names, "|")));
  }
  const fs::path output =
      options.output.empty() ? options.input / format->file_name : options.output;
  const Bundle bundle = open_bundle(options.input);
  const Results results = compute_results(bundle);
  format->write(output, bundle, results);
  fmt::print("Written: {} ({} arms, {} blocks)\n", output.string(), results.arms.size(),
             bundle.blocks.size());
  return kExitOk;
}

// The trace itself, or the one in a folder.
fs::path trace_in(const fs::path& input) {
  std::error_code error;
  if (!fs::is_directory(input, error)) return input;
  if (fs::exists(input / "trace.slt")) return input / "trace.slt";
  std::vector<std::string> found;
  for (fs::recursive_directory_iterator it(input, error), end; it != end; it.increment(error)) {
    if (it->path().extension() == ".slt") found.push_back(it->path().string());
  }
  if (found.empty()) throw ConfigError(fmt::format("{}: no trace.slt in it", input.string()));
  std::sort(found.begin(), found.end());
  throw ConfigError(fmt::format("{}: no trace.slt of its own; name one of: {}", input.string(),
                                fmt::join(found, ", ")));
}

// A line on a terminal that is rewritten, for traces that take more than a second or so.
class ProgressLine {
 public:
  explicit ProgressLine(std::string_view what) : what_(what), is_shown_(::isatty(2) != 0) {}
  ~ProgressLine() {
    if (is_open_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::int64_t num_done, std::int64_t num_total) {
    constexpr std::int64_t kBig = 1'000'000;
    if (!is_shown_ || num_total < kBig) return;
    fmt::print(stderr, "\r\033[K{}: {} of {} rows", what_, format_count(num_done),
               format_count(num_total));
    is_open_ = true;
  }

 private:
  std::string_view what_;
  bool is_shown_;
  bool is_open_ = false;
};

std::string contents_of(const Trace& trace) {
  return fmt::format("{} operations, {} API calls, {} ranges, {} steps",
                     format_count(std::ssize(trace.gpu_ops)), format_count(std::ssize(trace.apis)),
                     format_count(std::ssize(trace.range_instances)),
                     format_count(std::ssize(trace.steps)));
}

// Says what the trace lacks, if anything.
int exit_code_of(const Trace& trace, const fs::path& path) {
  if (!has_lost_data(trace.quality)) return kExitOk;
  std::vector<std::string> losses;
  for (const std::string_view name :
       {quality::kDropped, quality::kNullRequests, quality::kUnknownKind, quality::kTruncated,
        quality::kCounterOverflows}) {
    const auto found = trace.quality.find(std::string(name));
    if (found != trace.quality.end() && found->second > 0) {
      losses.push_back(fmt::format("{}={}", name, found->second));
    }
  }
  fmt::print(stderr, "{}: data lost in this trace: {}\n", path.string(), fmt::join(losses, ", "));
  return kExitDataLost;
}

bool starts_with_sqlite(const fs::path& path) {
  constexpr std::string_view kMagic = "SQLite format 3";
  std::array<char, kMagic.size()> head{};
  std::ifstream stream(path, std::ios::binary);
  stream.read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == kMagic;
}

fs::path with_ending(fs::path path, std::string_view ending) {
  if (path.extension() == ".gz") path.replace_extension();
  return path.replace_extension(ending);
}

void refuse_to_overwrite(const fs::path& input, const fs::path& output) {
  std::error_code error;
  if (fs::equivalent(input, output, error)) {
    throw ConfigError(fmt::format("out: {} is the input", output.string()));
  }
}

}  // namespace

Trace read_any_trace(const fs::path& path) {
  const fs::path file = trace_in(path);
  if (file.extension() == ".slt") return read_trace(file);
  return starts_with_sqlite(file) ? import_sqlite(file) : import_chrome_json(file);
}

int export_verb(const ExportVerbOptions& options) {
  if (fs::exists(options.input / "manifest.json")) return export_bundle(options);
  const Format& format = format_of(options);
  const fs::path input = trace_in(options.input);
  const fs::path output =
      options.output.empty() ? with_ending(input, format.endings.front()) : options.output;
  refuse_to_overwrite(input, output);
  const Trace trace = read_trace(input);
  {
    ProgressLine line("export");
    format.write(output, trace, [&](std::int64_t num_done, std::int64_t num_total) {
      line.update(num_done, num_total);
    });
  }
  fmt::print("Written: {} ({})\n", output.string(), contents_of(trace));
  return exit_code_of(trace, input);
}

int import_verb(const ImportVerbOptions& options) {
  const fs::path output =
      options.output.empty() ? with_ending(options.input, ".slt") : options.output;
  refuse_to_overwrite(options.input, output);
  const Trace trace = starts_with_sqlite(options.input) ? import_sqlite(options.input)
                                                        : import_chrome_json(options.input);
  write_trace(output, trace);
  fmt::print("Written: {} ({})\n", output.string(), contents_of(trace));
  return exit_code_of(trace, options.input);
}

void add_trace_verbs(CLI::App& app, int& exit_code) {
  auto to = std::make_shared<ExportVerbOptions>();
  CLI::App* export_app = app.add_subcommand(
      "export", "write a trace for Perfetto or Nsight Systems' queries, or a bundle's results");
  export_app
      ->add_option("input", to->input, "a trace.slt, the folder of its block, or a bundle's folder")
      ->required();
  export_app->add_option(
      "--format", to->format,
      "chrome: JSON for ui.perfetto.dev; sqlite: tables of Nsight Systems; csv: "
      "one row per operation (default: as --out ends, else chrome). Of a bundle: "
      "csv, a row an arm; mllog, MLPerf's log lines; benchmark, the JSON that "
      "Google Benchmark's compare.py reads");
  export_app->add_option("--out", to->output,
                         "file to write: .json, .json.gz, .sqlite, .csv (default: beside the "
                         "trace)");
  export_app->footer(
      "Examples:\n"
      "  steplens export runs/first/blocks/0031-trace-attention-flash --format chrome\n"
      "  steplens export trace.slt --out trace.json.gz\n"
      "  steplens export runs/first --format benchmark --out first.json\n"
      "  steplens export trace.slt --out trace.sqlite\n"
      "  sqlite3 trace.sqlite 'SELECT s.value, COUNT(*), SUM(k.end - k.start) AS ns\n"
      "    FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName\n"
      "    GROUP BY 1 ORDER BY ns DESC LIMIT 10'\n\n"
      "Exit code 5 if the trace lost data; the file is written all the same.");
  export_app->callback([to, &exit_code] { exit_code = export_verb(*to); });

  auto from = std::make_shared<ImportVerbOptions>();
  CLI::App* import_app = app.add_subcommand(
      "import", "read a trace of torch.profiler (Kineto), Chrome or Nsight Systems");
  import_app
      ->add_option("file", from->input,
                   "Chrome JSON, plain or .gz, or what nsys export --type sqlite wrote")
      ->required();
  import_app->add_option("--out", from->output, "trace.slt to write (default: beside the file)");
  import_app->footer(
      "Examples:\n"
      "  steplens import worker0.pt.trace.json.gz --out trace.slt\n"
      "  nsys export --type sqlite report.nsys-rep && steplens import report.sqlite\n\n"
      "Exit code 5 if the file ends in the middle or says that it lost data; what is there is "
      "written.");
  import_app->callback([from, &exit_code] { exit_code = import_verb(*from); });
}

}  // namespace steplens
