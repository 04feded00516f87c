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
  Bundle bundle;
  Results results;                   // Computed from the blocks, not read.
  std::vector<std::string> banners;  // What is incomplete or damaged; sentences.
};

}  // namespace steplens
