#pragma once

#include <filesystem>
#include <string>

namespace CLI {
class App;
}

namespace steplens {

struct AdviceVerbOptions {
  std::filesystem::path path;  // A bundle, a trace.slt, or the folder of a block.
  std::string arm;             // Of a bundle; empty: the baseline. "all": every arm.
  bool is_json = false;
};
/// Prints what the rules find. Returns 0, whatever they find. ConfigError names the path or arm
/// that cannot be used.
int advice_verb(const AdviceVerbOptions& options);

/// Adds `advise` to the program; see add_report_verbs.
void add_advice_verb(CLI::App& app, int& exit_code);

}  // namespace steplens
