#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/bundle.h"
#include "reports/results.h"

namespace steplens {

/// A bundle with what follows from it.
struct BundleModel {
  Bundle bundle;                     // Without blocks that cannot be read.
  Results results;                   // Computed from the blocks, not read.
  std::vector<std::string> banners;  // What is incomplete or damaged; sentences, the worst first.
};

/// Opens a bundle as far as it goes: blocks that are missing or damaged are left out and named in a
/// banner. ConfigError if its manifest cannot be read.
std::shared_ptr<const BundleModel> open_bundle_model(const std::filesystem::path& folder);

}  // namespace steplens
