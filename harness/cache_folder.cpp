#include "harness/cache_folder.h"

#include <cstdlib>

#include "harness/error.h"

namespace steplens {
namespace fs = std::filesystem;
namespace {

fs::path path_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

fs::path cache_folder() {
  if (const fs::path cache = path_in("XDG_CACHE_HOME"); !cache.empty()) return cache / "steplens";
  const fs::path home = path_in("HOME");
  if (home.empty()) {
    throw ConfigError(
        "neither HOME nor XDG_CACHE_HOME is set, so there is no folder for token files, packages "
        "and tables: set one of them, or name the token file with --data");
  }
  return home / ".cache" / "steplens";
}

fs::path cache_folder_of(const char* variable, std::string_view name) {
  const fs::path folder = path_in(variable);
  return folder.empty() ? cache_folder() / name : folder;
}

}  // namespace steplens
