#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace steplens {

/// Places on this machine that a run needs again when it is resumed. They do not belong into a
/// bundle, which may be published: they are kept in a file elsewhere until the run is done.
struct ResumeMemory {
  std::filesystem::path data_path;
  std::map<std::string, std::vector<std::string>> commands;  // Maps external arm to its command.
};

/// Empty if there is no such file, or it is damaged: it only saves the user some typing.
ResumeMemory read_resume_memory(const std::filesystem::path& path);

/// Does nothing if `path` is empty or cannot be written.
void write_resume_memory(const std::filesystem::path& path, const ResumeMemory& memory);

/// Removes the file.
void forget(const std::filesystem::path& path);

}  // namespace steplens
