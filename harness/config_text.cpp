#include "harness/config_text.h"

#include <nlohmann/json.hpp>

namespace steplens {
namespace {

bool has_own_flag(std::string_view key) {
  return key == "model" || key == "device" || key == "world_size" || key == "dataset";
}

}  // namespace

std::string value_text(const ConfigField& field, const RunConfig& config) {
  const nlohmann::json value = field.get(config);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::pair<std::string, std::string>> settings_beside(const RunConfig& config,
                                                                 const RunConfig& baseline) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const ConfigField& field : config_fields()) {
    if (has_own_flag(field.name) || field.get(config) == field.get(baseline)) continue;
    settings.emplace_back(field.name, value_text(field, config));
  }
  return settings;
}

}  // namespace steplens
