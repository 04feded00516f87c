#include "reports/verify_series.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "reports/sweep/sweep_results.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSweepResultsName = "sweep_results.json";

std::vector<fs::path> bundles_in(const fs::path& folder) {
  std::vector<fs::path> bundles;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "manifest.json")) bundles.push_back(entry.path());
  }
  std::ranges::sort(bundles);
  return bundles;
}

bool agree(const nlohmann::json& a, const nlohmann::json& b, double tolerance_ratio) {
  if (!a.is_number() || !b.is_number()) return a == b;
  const double first = a.get<double>();
  const double second = b.get<double>();
  return std::abs(first - second) <= tolerance_ratio * std::max(std::abs(first), std::abs(second));
}

// Where the stored results of a sweep differ from those that its blocks give. Values that only one
// of the two has are left alone: other versions write others.
std::vector<std::string> sweep_differences(const nlohmann::json& stored,
                                           const nlohmann::json& expected, double tolerance_ratio) {
  std::vector<std::string> found;
  const nlohmann::json flat = stored.flatten();
  const nlohmann::json flat_expected = expected.flatten();
  for (const auto& [path, value] : flat_expected.items()) {
    const auto it = flat.find(path);
    if (it == flat.end() || agree(*it, value, tolerance_ratio)) continue;
    found.push_back(fmt::format("{}: {}: stored {}, recomputed {}", kSweepResultsName, path,
                                it->dump(), value.dump()));
  }
  return found;
}

}  // namespace

std::vector<std::string> verify_series(const fs::path& folder, const VerifyOptions& options) {
  const std::vector<fs::path> bundles = bundles_in(folder);
  if (bundles.empty()) {
    throw ConfigError(fmt::format("{}: none of its bundles has begun", folder.string()));
  }
  std::vector<std::string> problems;
  for (const fs::path& bundle : bundles) {
    for (const std::string& problem : verify(bundle, options)) {
      problems.push_back(fmt::format("{}: {}", bundle.filename().string(), problem));
    }
  }
  if (is_sweep(folder) && fs::exists(folder / kSweepResultsName)) {
    const std::vector<std::string> found =
        sweep_differences(read_json(folder / kSweepResultsName), to_json(compute_sweep(folder)),
                          options.tolerance_ratio);
    problems.insert(problems.end(), found.begin(), found.end());
  }
  return problems;
}

}  // namespace steplens
