#include "harness/resume_memory.h"

#include <system_error>

#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"

namespace steplens {

namespace fs = std::filesystem;

ResumeMemory read_resume_memory(const fs::path& path) {
  if (path.empty() || !fs::exists(path)) return {};
  try {
    const nlohmann::json json = read_json(path);
    const std::string source = path.string();
    return {.data_path = json_field<std::string>(json, source, "data_path"),
            .commands = json_field<std::map<std::string, std::vector<std::string>>>(json, source,
                                                                                    "commands")};
  } catch (const ConfigError&) {
    return {};
  }
}

void write_resume_memory(const fs::path& path, const ResumeMemory& memory) {
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return;
  try {
    write_json_atomically(
        path, {{"data_path", memory.data_path.string()}, {"commands", memory.commands}});
  } catch (const ConfigError&) {
    return;  // A read-only home: --resume will ask for what it does not know.
  }
}

void forget(const fs::path& path) {
  if (path.empty()) return;
  // With it goes what a run left that was killed while it wrote the file.
  const std::string name = path.filename().string();
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(path.parent_path(), ignored)) {
    const std::string other = file.path().filename().string();
    if (other == name || other.starts_with(name + ".tmp-")) files.push_back(file.path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
}

}  // namespace steplens
