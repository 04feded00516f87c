#pragma once

#include <filesystem>
#include <string>

namespace steplens {

/// Where a bundle goes: the folder that the user named, else a temporary one that is removed.
class BundlePlace {
 public:
  /// `wanted`: empty for a temporary folder. ConfigError if none can be made.
  explicit BundlePlace(const std::string& wanted);
  ~BundlePlace();
  BundlePlace(const BundlePlace&) = delete;
  BundlePlace& operator=(const BundlePlace&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool is_temporary_ = false;
};

}  // namespace steplens
