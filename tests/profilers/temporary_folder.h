#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/temporary_folder.h"

namespace steplens {

/// An empty folder to put files in.
class FolderOfFiles : public TemporaryFolder {
 public:
  /// Writes a file, and makes the folders above it.
  std::filesystem::path write(const std::filesystem::path& name, const std::string& text) const {
    const std::filesystem::path file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }
};

}  // namespace steplens
