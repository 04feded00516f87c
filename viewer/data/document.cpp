#include "viewer/data/document.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/error.h"
#include "reports/matrix_table.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

enum class PathKind { kBundle, kTrace };

struct KnownPath {
  PathKind kind;
  fs::path path;  // Folder of the bundle, or the trace file.
};

KnownPath recognised(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw ConfigError(fmt::format("{}: does not exist", path.string()));
  if (fs::is_directory(status)) {
    if (fs::exists(path / "manifest.json", error)) return {PathKind::kBundle, path};
    if (fs::exists(path / kTraceFileName, error)) return {PathKind::kTrace, path / kTraceFileName};
    throw ConfigError(fmt::format(
        "{}: neither a bundle (no manifest.json in it) nor a traced block (no {} in it)",
        path.string(), kTraceFileName));
  }
  if (path.filename() == "manifest.json") {
    return {PathKind::kBundle, path.has_parent_path() ? path.parent_path() : fs::path(".")};
  }
  return {PathKind::kTrace, path};
}

// "eager" of eager.slt or eager.json.gz; the folder's name of a block's trace.slt.
std::string arm_name_of(const fs::path& path) {
  if (path.filename() == kTraceFileName && path.has_parent_path()) {
    return fs::absolute(path).parent_path().filename().string();
  }
  const std::string name = path.filename().string();
  const std::size_t dot = name.find('.', 1);
  return name.substr(0, dot);
}

Document open_traces(std::span<const KnownPath> known) {
  Document document;
  for (const KnownPath& one : known) {
    std::string arm = arm_name_of(one.path);
    for (int number = 2; document.find_trace(arm) != nullptr; ++number) {
      arm = fmt::format("{} ({})", arm_name_of(one.path), number);
    }
    document.title += (document.title.empty() ? "" : ", ") + arm;
    document.traces.push_back({.arm = arm, .path = one.path, .is_wanted = true});
  }
  return document;
}

Document open_bundle_document(const fs::path& folder) {
  Document document;
  document.bundle = open_bundle_model(folder);
  const std::string& title = document.bundle->bundle.manifest.title;
  document.title =
      title.empty() ? fs::absolute(folder).lexically_normal().filename().string() : title;
  if (document.title.empty()) document.title = folder.string();
  for (const bool is_memory_run : {false, true}) {
    const BlockKind kind = is_memory_run ? BlockKind::kMemory : BlockKind::kTrace;
    for (const ArmResult* arm : table_order(document.bundle->results)) {
      fs::path path = trace_path(document.bundle->bundle, arm->name, kind);
      if (path.empty()) continue;
      document.traces.push_back(
          {.arm = arm->name, .is_memory_run = is_memory_run, .path = std::move(path)});
    }
  }
  return document;
}

}  // namespace

std::vector<std::string> Document::arms() const {
  std::vector<std::string> names;
  if (bundle != nullptr) {
    for (const ArmResult* arm : table_order(bundle->results)) names.push_back(arm->name);
  } else {
    for (const TraceEntry& entry : traces) names.push_back(entry.arm);
  }
  return names;
}

std::string Document::reference_of(std::string_view arm) const {
  if (bundle != nullptr) {
    const ArmResult* row = find_arm(bundle->results, arm);
    return row == nullptr ? std::string() : row->reference;
  }
  return traces.empty() || traces.front().arm == arm ? std::string() : traces.front().arm;
}

TraceEntry* Document::find_trace(std::string_view arm, bool is_memory_run) {
  const auto found = std::ranges::find_if(traces, [&](const TraceEntry& entry) {
    return entry.arm == arm && entry.is_memory_run == is_memory_run;
  });
  return found == traces.end() ? nullptr : &*found;
}

const TraceModel* Document::want_trace(std::string_view arm, bool is_memory_run) {
  TraceEntry* entry = find_trace(arm, is_memory_run);
  if (entry == nullptr) return nullptr;
  entry->is_wanted = true;
  return entry->model.get();
}

const TracedArm* Document::want_breakdown(std::string_view arm) {
  TraceEntry* entry = find_trace(arm);
  if (entry == nullptr) return nullptr;
  entry->is_breakdown_wanted = true;
  return entry->breakdown.get();
}

Document open_document(std::span<const fs::path> paths) {
  std::vector<KnownPath> known;
  for (const fs::path& path : paths) known.push_back(recognised(path));
  const bool has_bundle = std::ranges::any_of(
      known, [](const KnownPath& one) { return one.kind == PathKind::kBundle; });
  if (known.empty()) throw ConfigError("nothing to open: name a bundle or a trace");
  if (has_bundle && known.size() > 1) {
    throw ConfigError(fmt::format(
        "{}: a bundle opens alone; several files can be opened together if all are traces",
        paths.front().string()));
  }
  Document document = has_bundle ? open_bundle_document(known.front().path) : open_traces(known);
  document.paths.assign(paths.begin(), paths.end());
  return document;
}

}  // namespace steplens
