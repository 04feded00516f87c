#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/verify.h"

namespace steplens {

/// `verify` of a folder that holds several bundles, a sweep's or a recipe's: every bundle in it,
/// each problem with the name of its folder, and of a sweep the stored sweep_results.json against
/// the blocks. Bundles that have not begun are no problem. ConfigError if it is no such folder, or
/// if none of its bundles has begun.
std::vector<std::string> verify_series(const std::filesystem::path& folder,
                                       const VerifyOptions& options = {});

}  // namespace steplens
