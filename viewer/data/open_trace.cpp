#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/trace/merge_ranks.h"
#include "reports/import/chrome_import.h"
#include "reports/import/sqlite_import.h"
#include "viewer/data/model_builder.h"
#include "viewer/data/trace_model.h"

namespace steplens {
namespace {

enum class FileKind : std::uint8_t { kTrace, kSqlite, kChromeJson };

// By what it begins with: people rename files.
FileKind kind_of(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw ConfigError(fmt::format("{}: a folder, and no trace", path.string()));
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::array<char, 16> bytes{};
  if (!stream) {
    const int code = errno != 0 ? errno : ENOENT;
    throw ConfigError(fmt::format("{}: cannot read: {}", path.string(),
                                  std::error_code(code, std::generic_category()).message()));
  }
  stream.read(bytes.data(), bytes.size());
  const std::string_view head(bytes.data(), static_cast<std::size_t>(stream.gcount()));
  if (head.starts_with("\x89SLT")) return FileKind::kTrace;
  if (head.starts_with("SQLite format 3")) return FileKind::kSqlite;
  const std::size_t first = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (head.starts_with("\x1f\x8b") ||
      (first != std::string_view::npos && (head[first] == '{' || head[first] == '['))) {
    return FileKind::kChromeJson;
  }
  const bool is_nsight = path.extension() == ".nsys-rep" || path.extension() == ".qdrep";
  throw ConfigError(fmt::format(
      "{}: {}", path.string(),
      is_nsight ? "a report of Nsight Systems: export it with `nsys export --type sqlite` first"
                : "no trace: takes trace.slt, Chrome or Kineto JSON (gz too), SQLite of Nsight "
                  "Systems"));
}

Trace import(FileKind kind, const std::filesystem::path& path, LoadProgress& progress) {
  progress.stage = "importing";
  const RowProgress tell = [&](std::int64_t num_done, std::int64_t num_total) {
    if (progress.is_cancelled()) {
      throw ConfigError(fmt::format("{}: reading was cancelled", path.string()));
    }
    progress.num_total_rows = static_cast<std::size_t>(num_total);
    progress.read.num_done_rows = static_cast<std::size_t>(num_done);
  };
  return kind == FileKind::kSqlite ? import_sqlite(path, tell) : import_chrome_json(path, tell);
}

// Of a block of several ranks all of them, on rank 0's clock.
Trace read_all_ranks(const std::filesystem::path& path, LoadProgress& progress) {
  std::vector<Trace> ranks;
  for (const std::filesystem::path& rank : rank_trace_paths(path)) {
    ranks.push_back(read_trace(rank, {.keeps_going = true, .progress = &progress.read}));
  }
  return merge_ranks(std::move(ranks));
}

int num_cores() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
}

}  // namespace

std::shared_ptr<const TraceModel> load_trace_model(const std::filesystem::path& path,
                                                   LoadProgress& progress) {
  const FileKind kind = kind_of(path);
  if (kind != FileKind::kTrace) {
    Trace trace = import(kind, path, progress);
    if (progress.is_cancelled()) {
      throw ConfigError(fmt::format("{}: reading was cancelled", path.string()));
    }
    progress.stage = "building lanes";
    return make_trace_model(std::move(trace), num_cores());
  }
  progress.stage = "reading";
  if (rank_trace_paths(path).size() > 1) {
    return make_trace_model(read_all_ranks(path, progress), num_cores());
  }
  ModelBuilder builder(&progress);
  Trace tables = read_trace(
      path, {.keeps_going = true, .num_threads = num_cores(), .progress = &progress.read},
      &builder);
  return builder.finish(std::move(tables), num_cores());
}

Trace read_any_trace(const std::filesystem::path& path, LoadProgress& progress) {
  const FileKind kind = kind_of(path);
  if (kind != FileKind::kTrace) return import(kind, path, progress);
  progress.stage = "reading";
  return read_all_ranks(path, progress);
}

}  // namespace steplens
