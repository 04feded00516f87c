#include "harness/plan_syntax.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

ToggleChoice parse_toggle_choice(std::string_view part) {
  const auto equals = part.find('=');
  ToggleChoice choice{.toggle = std::string(trimmed(part.substr(0, equals)))};
  if (choice.toggle.empty()) {
    throw ConfigError(fmt::format("toggles: '{}' names no toggle; write toggle=level|level", part));
  }
  if (equals == std::string_view::npos) return choice;
  for (const std::string_view level : split(part.substr(equals + 1), '|')) {
    if (level.empty()) {
      throw ConfigError(
          fmt::format("toggles: '{}' has an empty level; write toggle=level|level", part));
    }
    choice.levels.emplace_back(level);
  }
  return choice;
}

bool is_usable_arm_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

}  // namespace

std::string two_variables_message(std::string_view arm) {
  return fmt::format(
      "{}: two variables in one arm cannot be told apart; give each its own arm, or cross two "
      "toggles with --grid toggle,toggle",
      arm);
}

std::vector<ToggleChoice> parse_toggle_choices(std::string_view text) {
  std::vector<ToggleChoice> choices;
  for (const std::string_view part : split(text, ',')) {
    if (part.empty()) {
      throw ConfigError(
          fmt::format("toggles={}: an empty entry; write 'attention=math|cudnn,graph'", text));
    }
    if (part.find('+') != std::string_view::npos || std::ranges::count(part, '=') > 1) {
      throw ConfigError(two_variables_message(part));
    }
    ToggleChoice choice = parse_toggle_choice(part);
    const auto known = std::ranges::find(choices, choice.toggle, &ToggleChoice::toggle);
    if (known == choices.end()) {
      choices.push_back(std::move(choice));
    } else if (known->levels.empty() || choice.levels.empty()) {
      known->levels.clear();  // One of the two asked for all levels.
    } else {
      known->levels.insert(known->levels.end(), choice.levels.begin(), choice.levels.end());
    }
  }
  return choices;
}

std::vector<ExternalArmChoice> parse_external_arms(std::string_view text) {
  std::vector<ExternalArmChoice> arms;
  for (const std::string_view part : split(text, ',')) {
    if (part == "baseline") continue;
    const auto end_of_name = part.find_first_of("=:");
    ExternalArmChoice arm{.name = std::string(trimmed(part.substr(0, end_of_name)))};
    if (!is_usable_arm_name(arm.name) || arm.name == "baseline" || arm.name.starts_with("aa-")) {
      throw ConfigError(
          fmt::format("arms: '{}' is no name of an arm; write name, name=/path/to/executable or "
                      "name:key=value+key=value, the name of letters, digits, '-', '_' and '.'",
                      part));
    }
    if (std::ranges::count(arms, arm.name, &ExternalArmChoice::name) > 0) {
      throw ConfigError(fmt::format("arms: {} is given twice", arm.name));
    }
    if (end_of_name != std::string_view::npos) {
      const std::string_view rest = trimmed(part.substr(end_of_name + 1));
      if (part[end_of_name] == ':') {
        for (const std::string_view setting : split(rest, '+')) {
          arm.settings.push_back(parse_setting(setting));
        }
      } else {
        arm.path = std::string(rest);
        if (rest.empty()) throw ConfigError(fmt::format("arms: '{}' names no executable", part));
      }
    }
    arms.push_back(std::move(arm));
  }
  return arms;
}

std::string text_of(const ExternalArmChoice& arm) {
  if (!arm.path.empty()) return fmt::format("{}={}", arm.name, arm.path.string());
  std::string text = arm.name;
  for (const auto& [key, value] : arm.settings) {
    text += fmt::format("{}{}={}", text.size() == arm.name.size() ? ':' : '+', key, value);
  }
  return text;
}

std::pair<std::string, std::string> parse_setting(std::string_view text) {
  const auto equals = text.find('=');
  const std::string_view key = trimmed(text.substr(0, equals));
  if (equals == std::string_view::npos || key.empty()) {
    throw ConfigError(
        fmt::format("set: '{}' is not key=value; `steplens list keys` shows all keys", text));
  }
  return {std::string(key), std::string(trimmed(text.substr(equals + 1)))};
}

double parse_ratio(std::string_view flag, std::string_view text) {
  std::string_view number = trimmed(text);
  const bool is_percent = number.ends_with('%');
  if (is_percent) number = trimmed(number.substr(0, number.size() - 1));
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || number.empty() ||
      !std::isfinite(value)) {
    throw ConfigError(fmt::format("{}={}: takes a ratio such as 0.002 or 0.2%", flag, text));
  }
  return is_percent ? value / 100 : value;
}

}  // namespace steplens
