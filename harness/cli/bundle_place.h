#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/temporary_folder.h"

namespace steplens {

/// Where a bundle goes: the folder that the user named, else a temporary one that is removed.
class BundlePlace {
 public:
  /// `wanted`: empty for a temporary folder. ConfigError if none can be made.
  explicit BundlePlace(const std::string& wanted);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<TemporaryFolder> temporary_;
};

}  // namespace steplens
