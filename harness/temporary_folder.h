#pragma once

#include <filesystem>
#include <string_view>

namespace steplens {

/// An empty folder of its own, removed with all that is in it.
class TemporaryFolder {
 public:
  /// Below the system's temporary folder, or below `root`; the name begins with `name`. ConfigError
  /// if it cannot be made.
  [[nodiscard]] explicit TemporaryFolder(std::string_view name = "steplens",
                                         const std::filesystem::path& root = {});
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace steplens
