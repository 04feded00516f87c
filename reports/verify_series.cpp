#include "reports/verify_series.h"

#include <algorithm>

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
    for (const std::string& difference :
         value_differences(read_json(folder / kSweepResultsName), to_json(compute_sweep(folder)),
                           options.tolerance_ratio)) {
      problems.push_back(fmt::format("{}: {}", kSweepResultsName, difference));
    }
  }
  return problems;
}

}  // namespace steplens
