#include "harness/cli/locations.h"

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/cache_folder.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/process.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Empty if the variable is unset or empty.
std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_executable(const fs::path& path) {
  return fs::is_regular_file(path) && ::access(path.c_str(), X_OK) == 0;
}

// Of a program that was built in its checkout: build/PRESET/bin. (Not by __FILE__, which ccache
// makes relative to wherever it compiled.)
fs::path source_folder() { return executable_folder() / ".." / ".." / ".."; }

}  // namespace

fs::path executable_folder() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::current_path() : path.parent_path();
}

fs::path find_worker() {
  const std::string named = environment_variable("STEPLENS_WORKER");
  if (!named.empty()) return named;
  const fs::path beside = executable_folder() / "steplens-worker";
  return fs::exists(beside) ? beside : fs::path();
}

fs::path worker_or_throw() {
  const fs::path worker = find_worker();
  if (worker.empty()) {
    throw ConfigError(
        fmt::format("steplens-worker is not in {}; build it, or name one in STEPLENS_WORKER",
                    executable_folder().string()));
  }
  if (!is_executable(worker)) {
    throw ConfigError(fmt::format("{}: no executable file (STEPLENS_WORKER or beside steplens)",
                                  worker.string()));
  }
  return fs::absolute(worker);
}

fs::path find_scripts_folder() {
  for (const fs::path& root : {executable_folder() / "..", source_folder()}) {
    if (fs::is_directory(root / "scripts" / "arms")) {
      return fs::weakly_canonical(root / "scripts");
    }
  }
  return {};
}

fs::path find_site_packages() {
  const auto has_torch = [](const fs::path& folder) {
    return fs::exists(folder / "torch" / "lib" / "libtorch_cpu.so");
  };
  fs::path named = environment_variable("STEPLENS_TORCH");
  if (!named.empty()) {
    if (fs::exists(named / "lib" / "libtorch_cpu.so")) named = (named / "..").lexically_normal();
    return has_torch(named) ? named : fs::path();
  }
  const fs::path link = executable_folder() / ".." / "libtorch";
  if (has_torch(link)) return fs::canonical(link);
  for (const fs::path& script : {executable_folder() / ".." / "scripts" / "find_torch.sh",
                                 source_folder() / "cmake" / "find_torch.sh"}) {
    if (!is_executable(script)) continue;
    const ProcessResult result = run_process({.command = {script.string()}, .timeout_s = 20});
    if (result.end == ProcessEnd::kExited && result.exit_code == 0 && !result.last_lines.empty() &&
        has_torch(result.last_lines.back())) {
      return result.last_lines.back();
    }
  }
  return {};
}

PackageExport package_export_of(const PlanVocabulary& vocabulary) {
  return {.command = {(vocabulary.scripts_folder / "export_step.py").string()},
          .name_of = vocabulary.package_name};
}

fs::path default_data_path(std::string_view dataset, std::string_view tokenizer,
                           std::int64_t vocab_size) {
  const std::string suffix =
      tokenizer == "bpe" ? fmt::format("bpe{}", vocab_size) : std::string(tokenizer);
  return cache_folder() / "data" / fmt::format("{}-{}.bin", dataset, suffix);
}

fs::path resume_memory_path(const fs::path& bundle) {
  try {
    fs::path place = fs::weakly_canonical(fs::absolute(bundle));
    if (!place.has_filename()) place = place.parent_path();  // "runs/a/" is "runs/a".
    return cache_folder() / "runs" / (sha256_hex(place.string()).substr(0, 16) + ".json");
  } catch (const ConfigError&) {
    return {};
  }
}

}  // namespace steplens
