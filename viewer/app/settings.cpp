#include "viewer/app/settings.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "harness/error.h"
#include "harness/files.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMinWindow = 320;
constexpr int kMaxWindow = 16384;

// The variable's folder, or the one below the home folder that the XDG specification names.
fs::path xdg_folder(const char* variable, std::string_view below_home) {
  // The specification: relative paths are invalid and ignored.
  const char* value = std::getenv(variable);
  if (value != nullptr && fs::path(value).is_absolute()) return value;
  const char* home = std::getenv("HOME");
  return fs::path(home == nullptr ? "/" : home) / below_home;
}

json read_or_empty(const fs::path& path) {
  try {
    json content = read_json(path);
    return content.is_object() ? content : json::object();
  } catch (const ConfigError&) {
    return json::object();
  }
}

template <class Value>
Value value_or(const json& object, const char* key, Value fallback) {
  try {
    return object.value(key, std::move(fallback));
  } catch (const json::exception&) {
    return fallback;
  }
}

}  // namespace

void remember_recent(Settings& settings, const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  std::erase(settings.recent, absolute);
  settings.recent.insert(settings.recent.begin(), absolute);
  if (settings.recent.size() > kMaxRecent) settings.recent.resize(kMaxRecent);
}

fs::path settings_path() {
  return xdg_folder("XDG_CONFIG_HOME", ".config") / "steplens/viewer.json";
}

fs::path recent_path() {
  return xdg_folder("XDG_STATE_HOME", ".local/state") / "steplens/recent.json";
}

Settings read_settings() {
  Settings settings;
  const json stored = read_or_empty(settings_path());
  if (value_or<std::string>(stored, "theme", "") == "light") settings.theme = ThemeKind::kLight;
  settings.panel = value_or<std::string>(stored, "panel", settings.panel);
  settings.window_width = std::clamp(value_or<int>(stored, "window_width", settings.window_width),
                                     kMinWindow, kMaxWindow);
  settings.window_height = std::clamp(
      value_or<int>(stored, "window_height", settings.window_height), kMinWindow, kMaxWindow);
  if (stored.contains("panels") && stored["panels"].is_object()) settings.panels = stored["panels"];
  for (const std::string& path :
       value_or<std::vector<std::string>>(read_or_empty(recent_path()), "paths", {})) {
    if (settings.recent.size() < kMaxRecent) settings.recent.emplace_back(path);
  }
  return settings;
}

std::string write_settings(const Settings& settings) {
  json recent = json::array();
  for (const fs::path& path : settings.recent) recent.push_back(path.string());
  try {
    fs::create_directories(settings_path().parent_path());
    write_json_atomically(settings_path(), {{"theme", name_of(settings.theme)},
                                            {"panel", settings.panel},
                                            {"window_width", settings.window_width},
                                            {"window_height", settings.window_height},
                                            {"panels", settings.panels}});
    fs::create_directories(recent_path().parent_path());
    write_json_atomically(recent_path(), {{"paths", recent}});
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace steplens
