#include "harness/cli/bundle_place.h"

namespace steplens {

BundlePlace::BundlePlace(const std::string& wanted) : path_(wanted) {
  if (wanted.empty()) path_ = temporary_.emplace("steplens-run").path();
}

}  // namespace steplens
