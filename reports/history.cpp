#include "reports/history.h"

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "reports/format.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<fs::path> bundles_below(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw ConfigError(fmt::format("{}: no such folder", folder.string()));
  }
  if (fs::exists(folder / "manifest.json")) return {folder};
  std::vector<fs::path> bundles;
  for (fs::recursive_directory_iterator
           it(folder, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (!it->is_directory(error) || !fs::exists(it->path() / "manifest.json")) continue;
    bundles.push_back(it->path());
    it.disable_recursion_pending();
  }
  std::ranges::sort(bundles);
  return bundles;
}

void add_bundle(const fs::path& path, const std::string& name, History& history) {
  const Bundle bundle = open_bundle(path);
  ++history.num_bundles;
  const Manifest& manifest = bundle.manifest;
  if (manifest.num_aa > 0) return;
  for (const ArmResult& arm : compute_results(bundle).arms) {
    if (!arm.is_applicable) continue;
    history.rows.push_back({.arm = arm.name,
                            .model = manifest.baseline.model,
                            .device = manifest.gpu_name.empty()
                                          ? std::string(name_of(manifest.baseline.device))
                                          : manifest.gpu_name,
                            .begun_utc = manifest.created_utc,
                            .bundle = name,
                            .git_sha = manifest.git_sha,
                            .valid_tokens_per_s = arm.valid_tokens_per_s,
                            .effect_ratio = arm.effect_ratio,
                            .effect_low_ratio = arm.effect_low_ratio,
                            .effect_high_ratio = arm.effect_high_ratio,
                            .verdict = arm.verdict,
                            .num_rounds = arm.num_rounds});
  }
}

auto history_key(const HistoryRow& row) { return std::tie(row.model, row.device, row.arm); }

// Compares each interval with the last one before it.
void find_changes(std::vector<HistoryRow>& rows) {
  const HistoryRow* before = nullptr;
  double low_before = 0;
  double high_before = 0;
  for (HistoryRow& row : rows) {
    if (before != nullptr && history_key(*before) != history_key(row)) before = nullptr;
    if (!row.effect_low_ratio || !row.effect_high_ratio) continue;
    const double low = *row.effect_low_ratio;
    const double high = *row.effect_high_ratio;
    row.has_changed = before != nullptr && (low > high_before || high < low_before);
    before = &row;
    low_before = low;
    high_before = high;
  }
}

// "2026-01-31 12:34" of "2026-01-31T12:34:56.789Z".
std::string minute_of(const std::string& utc) {
  std::string text = utc.substr(0, 16);
  std::ranges::replace(text, 'T', ' ');
  return text;
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

}  // namespace

History history_of(const fs::path& folder) {
  History history;
  for (const fs::path& path : bundles_below(folder)) {
    const fs::path below = path.lexically_relative(folder);
    const std::string name = below.empty() || below == "."
                                 ? path.lexically_normal().filename().string()
                                 : below.string();
    try {
      add_bundle(path, name, history);
    } catch (const ConfigError& error) {
      history.unreadable.push_back(fmt::format("{}: {}", name, error.what()));
    }
  }
  if (history.num_bundles == 0) {
    throw ConfigError(
        history.unreadable.empty()
            ? fmt::format("{}: holds no bundle (no manifest.json in or below it)", folder.string())
            : history.unreadable.front());
  }
  std::ranges::stable_sort(history.rows, [](const HistoryRow& a, const HistoryRow& b) {
    return std::tuple_cat(history_key(a), std::tie(a.begun_utc)) <
           std::tuple_cat(history_key(b), std::tie(b.begun_utc));
  });
  find_changes(history.rows);
  return history;
}

Table history_table(const History& history) {
  Table table{.columns = {{"arm"},
                          {"model"},
                          {"device"},
                          {"begun, UTC"},
                          {"bundle"},
                          {"git"},
                          {"rounds", Align::kRight},
                          {"tokens/s", Align::kRight},
                          {"effect"},
                          {"verdict"},
                          {"changed"}}};
  for (const HistoryRow& row : history.rows) {
    table.rows.push_back({row.arm, row.model, row.device, minute_of(row.begun_utc), row.bundle,
                          row.git_sha.substr(0, 10), std::to_string(row.num_rounds),
                          format_or_absent(row.valid_tokens_per_s, format_rate),
                          row.effect_ratio ? format_effect(*row.effect_ratio, row.effect_low_ratio,
                                                           row.effect_high_ratio)
                                           : std::string(kNoNumber),
                          row.verdict ? verdict_words(*row.verdict) : std::string(kNoNumber),
                          row.has_changed ? "CHANGED" : ""});
  }
  drop_absent_columns(table);
  return table;
}

json to_json(const History& history) {
  json rows = json::array();
  for (const HistoryRow& row : history.rows) {
    rows.push_back({{"arm", row.arm},
                    {"model", row.model},
                    {"device", row.device},
                    {"begun_utc", row.begun_utc},
                    {"bundle", row.bundle},
                    {"git_sha", row.git_sha},
                    {"valid_tokens_per_s", or_null(row.valid_tokens_per_s)},
                    {"effect_ratio", or_null(row.effect_ratio)},
                    {"effect_low_ratio", or_null(row.effect_low_ratio)},
                    {"effect_high_ratio", or_null(row.effect_high_ratio)},
                    {"verdict", row.verdict ? json(verdict_name(*row.verdict)) : json()},
                    {"num_rounds", row.num_rounds},
                    {"has_changed", row.has_changed}});
  }
  return {{"schema_version", kSchemaVersion},
          {"num_bundles", history.num_bundles},
          {"rows", rows},
          {"unreadable", history.unreadable}};
}

int history_verb(const HistoryVerbOptions& options) {
  const History history = history_of(options.folder);
  if (!options.picture.empty()) {
    const std::string svg = history_svg(history);
    if (svg.empty()) throw ConfigError("svg: no effect with an interval to draw");
    write_file_atomically(options.picture, svg);
  }
  if (options.is_json) {
    fmt::print("{}\n", to_json(history).dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    // Wider than a terminal rather than without the bundle's name.
    fmt::print("{}", to_text(history_table(history), 160));
  }
  for (const std::string& reason : history.unreadable) {
    fmt::print(stderr, "steplens: left out {}\n", reason);
  }
  return history.unreadable.empty() ? 0 : 1;
}

}  // namespace steplens
