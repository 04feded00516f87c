#include "viewer/data/document.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/error.h"
#include "reports/matrix_table.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

enum class PathKind { kBundle, kSweep, kTrace };

struct KnownPath {
  PathKind kind;
  fs::path path;  // Folder of the bundle or sweep, or the trace file.
};

// The bundles in a folder, by name.
std::vector<std::string> bundles_in(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (fs::exists(entry.path() / "manifest.json", error)) paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

KnownPath recognised(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw ConfigError(fmt::format("{}: does not exist", path.string()));
  if (fs::is_directory(status)) {
    if (fs::exists(path / "manifest.json", error)) return {PathKind::kBundle, path};
    if (is_sweep(path)) return {PathKind::kSweep, path};
    if (fs::exists(path / kTraceFileName, error)) return {PathKind::kTrace, path / kTraceFileName};
    if (const std::vector<std::string> bundles = bundles_in(path); !bundles.empty()) {
      throw ConfigError(fmt::format("{}: holds several bundles, as a recipe does; open one: {}",
                                    path.string(), fmt::join(bundles, ", ")));
    }
    throw ConfigError(fmt::format(
        "{}: neither a bundle (no manifest.json in it) nor a sweep (no {}) nor a traced block "
        "(no {})",
        path.string(), kSweepFileName, kTraceFileName));
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (path.filename() == "manifest.json") return {PathKind::kBundle, folder};
  if (path.filename() == kSweepFileName) return {PathKind::kSweep, folder};
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

std::string name_of_folder(const fs::path& folder) {
  fs::path name = fs::absolute(folder).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();  // It ended in a slash.
  return name.has_filename() ? name.filename().string() : folder.string();
}

Document open_bundle_document(const fs::path& folder) {
  Document document;
  document.bundle = open_bundle_model(folder);
  const std::string& title = document.bundle->bundle.manifest.title;
  document.title = title.empty() ? name_of_folder(folder) : title;
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

Document open_sweep_document(const fs::path& folder) {
  auto sweep =
      std::make_shared<SweepModel>(SweepModel{.folder = folder, .results = compute_sweep(folder)});
  const std::vector<SweepPoint>& points = sweep->results.points;
  const auto first = std::ranges::find_if(points, &SweepPoint::is_measured);
  if (first == points.end()) {
    throw ConfigError(fmt::format(
        "{}: none of this sweep's matrices has begun; steplens matrix --resume {} starts them",
        folder.string(), folder.string()));
  }
  const auto index = static_cast<std::size_t>(first - points.begin());
  return open_sweep_point(std::move(sweep), index);
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
  const bool has_folder =
      std::ranges::any_of(known, [](const KnownPath& one) { return one.kind != PathKind::kTrace; });
  if (known.empty()) throw ConfigError("nothing to open: name a bundle or a trace");
  if (has_folder && known.size() > 1) {
    throw ConfigError(
        fmt::format("{}: a bundle or a sweep opens alone; several files can be "
                    "opened together if all are traces",
                    paths.front().string()));
  }
  const KnownPath& first = known.front();
  Document document = first.kind == PathKind::kSweep    ? open_sweep_document(first.path)
                      : first.kind == PathKind::kBundle ? open_bundle_document(first.path)
                                                        : open_traces(known);
  document.paths.assign(paths.begin(), paths.end());
  return document;
}

Document open_sweep_point(std::shared_ptr<const SweepModel> sweep, std::size_t point_index) {
  const Sweep& plan = sweep->results.sweep;
  const SweepPoint& point = sweep->results.points.at(point_index);
  if (!point.is_measured) {
    throw ConfigError(fmt::format("{}={}: not measured yet", plan.key, point.value));
  }
  Document document = open_bundle_document(sweep->folder / point_folder(plan, point.value));
  document.title = fmt::format("{}, {}={}", name_of_folder(sweep->folder), plan.key, point.value);
  document.paths = {sweep->folder};
  document.sweep = std::move(sweep);
  document.point_index = point_index;
  return document;
}

}  // namespace steplens
