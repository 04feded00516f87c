#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "viewer/draw/theme.h"
#include "viewer/panels/selection.h"

namespace steplens {

/// The command line.
struct ViewerOptions {
  std::vector<std::filesystem::path> paths;
  std::filesystem::path screenshot;  // Not empty: no window; this PNG instead.
  std::filesystem::path dump_state;  // Rewritten whenever the state changes.
  std::filesystem::path script;      // Input to play before the screenshot.
  std::string panel;                 // Empty: the one of last time.
  std::string arm;
  std::string against;
  std::optional<StepRange> steps;
  int width = 0;  // 0: the one of last time, or 1440 x 900.
  int height = 0;
  std::optional<ThemeKind> theme;
  float scale = 0;  // 0: the screen's.
  bool only_built_in_font = false;
};

/// Returns the options, or what the process is to exit with after it printed help or what is wrong.
std::optional<ViewerOptions> parse_options(int argc, char** argv, int& exit_code);

/// "step:3" or "step:3-5", counted from 0. ConfigError says what is allowed.
StepRange parse_range(const std::string& text);

}  // namespace steplens
