#include "viewer/app/options.h"

#include <charconv>
#include <cstdio>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/build_info.h"
#include "harness/error.h"
#include "viewer/panels/panel.h"

namespace steplens {
namespace {

constexpr std::string_view kFooter =
    "Examples:\n"
    "  steplens-viewer runs/first                        a bundle\n"
    "  steplens-viewer runs/by-length                    a sweep\n"
    "  steplens-viewer eager.slt graph.slt               two traces, one above the other\n"
    "  steplens-viewer trace.json.gz                     of torch.profiler; Nsight's .sqlite too\n"
    "  steplens-viewer runs/first --screenshot out.png --panel timeline --arm graph=on --range "
    "step:3\n\n"
    "Press ? in the window for its keys.\n";

bool parse_int(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

void parse_size(const std::string& text, int& width, int& height) {
  constexpr int kMin = 200;
  constexpr int kMax = 8192;
  const std::size_t x = text.find('x');
  if (x == std::string::npos || !parse_int(std::string_view(text).substr(0, x), width) ||
      !parse_int(std::string_view(text).substr(x + 1), height) || std::min(width, height) < kMin ||
      std::max(width, height) > kMax) {
    throw ConfigError(fmt::format("size: '{}' is not allowed; allowed: WIDTHxHEIGHT, each {} to {}",
                                  text, kMin, kMax));
  }
}

std::string panel_names() {
  std::string names;
  for (const auto& panel : make_panels())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", panel->key());
  return names;
}

void check_panel(const std::string& name) {
  for (const auto& panel : make_panels()) {
    if (panel->key() == name) return;
  }
  throw ConfigError(fmt::format("panel: '{}' is unknown; allowed: {}", name, panel_names()));
}

}  // namespace

StepRange parse_range(const std::string& text) {
  constexpr std::string_view kPrefix = "step:";
  const std::string_view rest =
      std::string_view(text).substr(std::min(kPrefix.size(), text.size()));
  const std::size_t dash = rest.find('-');
  StepRange range;
  const bool is_good = text.starts_with(kPrefix) &&
                       parse_int(rest.substr(0, dash), range.first_step_index) &&
                       parse_int(dash == std::string_view::npos ? rest : rest.substr(dash + 1),
                                 range.last_step_index) &&
                       range.first_step_index <= range.last_step_index;
  if (!is_good) {
    throw ConfigError(fmt::format(
        "range: '{}' is not allowed; allowed: step:N or step:FIRST-LAST, counted from 0", text));
  }
  return range;
}

std::optional<ViewerOptions> parse_options(int argc, char** argv, int& exit_code) {
  ViewerOptions options;
  std::string theme;
  std::string size;
  std::string range;
  CLI::App app(
      "Looks at bundles, sweeps and traces: matrix, breakdown, timeline, kernels, memory, run.");
  app.footer(std::string(kFooter));
  app.set_version_flag("--version", fmt::format("steplens-viewer {}", build_info().version));
  app.add_option(
      "paths", options.paths,
      "A bundle, a sweep's folder, or one or several traces (.slt, Chrome or Kineto JSON, "
      "Nsight Systems' .sqlite)");
  app.add_option("--screenshot", options.screenshot, "Write this PNG and exit; needs no display");
  app.add_option("--panel", options.panel, fmt::format("Which panel: {}", panel_names()));
  app.add_option("--arm", options.arm, "Select this arm, beside what it is compared with");
  app.add_option("--against", options.against, "Compare --arm with this arm instead");
  app.add_option("--range", range, "Select steps: step:3 or step:3-5, counted from 0");
  app.add_option("--size", size, "Size of the window in pixels, such as 1600x900");
  app.add_option("--theme", theme, "dark or light");
  app.add_option("--scale", options.scale,
                 "Size of all that is drawn, 0.5 to 4; else the screen's");
  app.add_flag("--built-in-font", options.only_built_in_font,
               "Do not look for fonts: the same picture on every machine");
  app.add_option("--dump-state", options.dump_state,
                 "Write what is shown as JSON into this file, again after each change");
  app.add_option(
      "--script", options.script,
      "Input to play before --screenshot, a line each: move X Y, click X Y, drag X Y X Y, "
      "wheel N, key NAME, type TEXT; X Y may be a name of --dump-state");
  try {
    app.parse(argc, argv);
    if (!theme.empty()) {
      if (theme != "dark" && theme != "light") {
        throw ConfigError(fmt::format("theme: '{}' is not allowed; allowed: dark, light", theme));
      }
      options.theme = theme == "dark" ? ThemeKind::kDark : ThemeKind::kLight;
    }
    if (!size.empty()) parse_size(size, options.width, options.height);
    if (!range.empty()) options.steps = parse_range(range);
    if (!options.panel.empty()) check_panel(options.panel);
    constexpr float kMinScale = 0.5F;
    constexpr float kMaxScale = 4;
    if (options.scale != 0 && !(options.scale >= kMinScale && options.scale <= kMaxScale)) {
      throw ConfigError(fmt::format("scale: {} is not allowed; allowed: {} to {}", options.scale,
                                    kMinScale, kMaxScale));
    }
    if (!options.script.empty() && options.screenshot.empty()) {
      throw ConfigError("script: goes with --screenshot only");
    }
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    exit_code = code == 0 ? 0 : 2;
    return std::nullopt;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "steplens-viewer: {}\n", error.what());
    exit_code = 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace steplens
