#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {

/// Reads one member of a JSON object. ConfigError names the file (`source`), the field and what is
/// wrong with it.
template <typename T>
T json_field(const nlohmann::json& json, std::string_view source, std::string_view name) {
  const auto it = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || it == json.end()) {
    throw ConfigError(fmt::format("{}: field {} is missing", source, name));
  }
  try {
    return it->template get<T>();
  } catch (const nlohmann::json::exception&) {
    std::string text = it->dump();
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    throw ConfigError(fmt::format("{}: field {} has the wrong type: {}", source, name, text));
  }
}

/// The same for a field that older files may lack: returns `fallback` then.
template <typename T>
T json_field_or(const nlohmann::json& json, std::string_view source, std::string_view name,
                T fallback) {
  if (!json.is_object() || !json.contains(name) || json.at(std::string(name)).is_null()) {
    return fallback;
  }
  return json_field<T>(json, source, name);
}

/// A member that is a finite number; absent where there is none.
inline std::optional<double> number_at(const nlohmann::json& json, std::string_view name) {
  if (!json.is_object()) return std::nullopt;
  const auto it = json.find(name);
  if (it == json.end() || !it->is_number()) return std::nullopt;
  const auto value = it->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// Refuses a file written by a newer program.
inline void check_schema_version(const nlohmann::json& json, std::string_view source, int newest) {
  const int version = json_field<int>(json, source, "schema_version");
  if (version < 1 || version > newest) {
    throw ConfigError(
        fmt::format("{}: schema_version={}: this program reads 1 to {}; a newer Steplens wrote it",
                    source, version, newest));
  }
}

}  // namespace steplens
