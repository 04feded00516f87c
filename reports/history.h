#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reports/document.h"
#include "reports/results.h"

namespace steplens {

/// One arm of one bundle. Rows of the same arm, model and device are one history.
struct HistoryRow {
  std::string arm;
  std::string model;
  std::string device;  // "NVIDIA H200", "cpu".
  std::string begun_utc;
  std::string bundle;  // Below the folder that was asked for.
  std::string git_sha;
  std::optional<double> valid_tokens_per_s;
  std::optional<double> effect_ratio, effect_low_ratio, effect_high_ratio;
  std::optional<Verdict> verdict;
  int num_rounds = 0;
  /// The interval has no moment in common with that of the row before it.
  bool has_changed = false;
};

struct History {
  std::vector<HistoryRow> rows;         // By model, device and arm, each from old to new.
  std::vector<std::string> unreadable;  // "folder: reason" of bundles that were left out.
  int num_bundles = 0;                  // Read.
};

/// The effects of all bundles in and below `folder` (a bundle is not searched for others). A/A
/// bundles and arms that cannot run have none. ConfigError if there is no bundle.
History history_of(const std::filesystem::path& folder);

Table history_table(const History& history);
nlohmann::json to_json(const History& history);

/// Effects with their intervals, one under the other, a heading for each history. An SVG file;
/// empty where no row has an interval.
std::string history_svg(const History& history);

struct HistoryVerbOptions {
  std::filesystem::path folder;
  std::filesystem::path picture;  // Empty: none is written.
  bool is_json = false;
};
/// Prints it. Returns 0, or 1 if a bundle could not be read.
int history_verb(const HistoryVerbOptions& options);

}  // namespace steplens
