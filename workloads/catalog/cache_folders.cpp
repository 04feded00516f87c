#include "workloads/catalog/cache_folders.h"

#include <cstdlib>

namespace steplens {
namespace fs = std::filesystem;

fs::path cache_folder_of(const char* variable, std::string_view name) {
  const auto path_in = [](const char* of_variable) {
    const char* value = std::getenv(of_variable);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path folder = path_in(variable); !folder.empty()) return folder;
  fs::path cache = path_in("XDG_CACHE_HOME");
  if (cache.empty()) cache = path_in("HOME") / ".cache";
  return cache / "steplens" / name;
}

}  // namespace steplens
