#include "harness/temporary_folder.h"

#include <string>

#include <fmt/format.h>
#include <stdlib.h>

#include "harness/error.h"

namespace steplens {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(std::string_view name, const fs::path& root) {
  const fs::path above = root.empty() ? fs::temp_directory_path() : root;
  // mkdtemp wants six X to replace.
  std::string path = (above / fmt::format("{}-{}", name, std::string(6, 'X'))).string();
  if (::mkdtemp(path.data()) == nullptr) {
    throw ConfigError(fmt::format("{}: cannot make a temporary folder", above.string()));
  }
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace steplens
