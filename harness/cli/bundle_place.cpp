#include "harness/cli/bundle_place.h"

#include <fmt/format.h>
#include <stdlib.h>

#include "harness/error.h"

namespace steplens {

namespace fs = std::filesystem;

BundlePlace::BundlePlace(const std::string& wanted) : path_(wanted) {
  if (!wanted.empty()) return;
  std::string name = (fs::temp_directory_path() / "steplens-run-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw ConfigError(fmt::format("{}: cannot make a temporary folder; name one with --out", name));
  }
  path_ = name;
  is_temporary_ = true;
}

BundlePlace::~BundlePlace() {
  std::error_code ignored;
  if (is_temporary_) fs::remove_all(path_, ignored);
}

}  // namespace steplens
