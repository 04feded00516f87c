#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "viewer/draw/theme.h"

namespace steplens {

/// What the viewer remembers between two starts.
struct Settings {
  ThemeKind theme = ThemeKind::kDark;
  std::string panel = "matrix";
  int window_width = 1440;
  int window_height = 900;
  nlohmann::json panels = nlohmann::json::object();  // By key; each panel's own.
  std::vector<std::filesystem::path> recent;         // Absolute; the latest first.
};

/// Documents that the start page lists.
inline constexpr std::size_t kMaxRecent = 10;

/// Puts a path at the top of the list.
void remember_recent(Settings& settings, const std::filesystem::path& path);

/// $XDG_CONFIG_HOME/steplens/viewer.json and $XDG_STATE_HOME/steplens/recent.json.
std::filesystem::path settings_path();
std::filesystem::path recent_path();

/// Never throws: what is missing or damaged keeps its default.
Settings read_settings();

/// Returns why they could not be written; empty if they were.
std::string write_settings(const Settings& settings);

}  // namespace steplens
