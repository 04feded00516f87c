#include "harness/config_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/models.h"

namespace steplens {
namespace {

bool has_own_flag(std::string_view key) {
  return key == "model" || key == "device" || key == "world_size" || key == "dataset";
}

RunConfig own_baseline(Device device, std::string_view model) {
  const bool is_known = std::ranges::any_of(
      all_models(), [&](const ModelPreset& preset) { return preset.name == model; });
  return is_known ? baseline_config(device, model) : RunConfig{};
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

std::string shell_word(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-=/,+:%").find(c) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::vector<std::string> words_of_config(const RunConfig& config) {
  std::vector<std::string> words = {fmt::format("--device {}", name_of(config.device)),
                                    "--model " + shell_word(config.model)};
  if (config.world_size > 1) words.push_back(fmt::format("--ranks {}", config.world_size));
  for (const auto& [key, value] :
       settings_beside(config, own_baseline(config.device, config.model))) {
    words.push_back("--set " + shell_word(fmt::format("{}={}", key, value)));
  }
  return words;
}

}  // namespace steplens
