#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace steplens {

struct ScaleVerbOptions {
  std::filesystem::path bundle;
  std::string arm;  // Empty: the baseline.
  std::string links = "h200-infiniband";
  std::vector<std::int64_t> num_gpus;  // Empty: 1, 2, 4, ... 4096.
  bool is_json = false;
};
/// Prints what more GPUs would do with an arm of a bundle. Returns 0. ConfigError names what cannot
/// be used.
int scale_verb(const ScaleVerbOptions& options);

/// Adds `scale` to the program; see add_report_verbs.
void add_scale_verb(CLI::App& app, int& exit_code);

}  // namespace steplens
