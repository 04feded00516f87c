#include "harness/experiment.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/json_field.h"
#include "harness/run_config.h"

namespace steplens {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 22> kKeys = {
    "title",       "model",   "device", "ranks",       "data",
    "set",         "toggles", "grid",   "pairs",       "arms",
    "aa",          "rounds",  "seed",   "max_seconds", "until_halfwidth",
    "equivalence", "warmup",  "steps",  "trace_steps", "graph_trace_steps",
    "memory",      "counters"};

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

[[noreturn]] void refuse(std::string_view source, std::string_view key, const json& value,
                         std::string_view allowed) {
  throw ConfigError(fmt::format("{}: {}={}: takes {}", source, key, value.dump(), allowed));
}

std::vector<std::string> words_of(const json& value, std::string_view source,
                                  std::string_view key) {
  std::vector<std::string> words;
  for (const json& word : value) {
    if (!word.is_string()) refuse(source, key, value, "strings in its array");
    words.push_back(word.get<std::string>());
  }
  return words;
}

// {"attention": ["math", "cudnn"], "graph": "on", "optimizer": null}
std::vector<ToggleChoice> choices_from_object(const json& object, std::string_view source,
                                              std::string_view key) {
  std::vector<ToggleChoice> choices;
  for (const auto& [toggle, levels] : object.items()) {
    ToggleChoice choice{.toggle = toggle};
    if (levels.is_array()) {
      choice.levels = words_of(levels, source, fmt::format("{}.{}", key, toggle));
    } else if (!levels.is_null()) {
      choice.levels = {text_of(levels)};
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<ToggleChoice> choices_from_json(const json& value, std::string_view source,
                                            std::string_view key) {
  if (value.is_string()) return parse_toggle_choices(value.get<std::string>());
  if (value.is_array()) {
    return parse_toggle_choices(fmt::format("{}", fmt::join(words_of(value, source, key), ",")));
  }
  if (value.is_object()) return choices_from_object(value, source, key);
  refuse(source, key, value, "text as of the flag, an array of it, or {\"toggle\": [levels]}");
}

// Arms of a file are external ones by name, or {"toggle": "level"}.
void add_arm(const json& arm, std::string_view source, std::vector<ExternalArmChoice>& arms,
             std::vector<ToggleChoice>& toggles) {
  if (arm.is_string()) {
    const std::vector<ExternalArmChoice> named = parse_external_arms(arm.get<std::string>());
    arms.insert(arms.end(), named.begin(), named.end());
    return;
  }
  if (!arm.is_object() || arm.empty()) {
    refuse(source, "arms", arm,
           "names, name=/path/to/executable, name:key=value+key=value, or {\"toggle\": \"level\"}");
  }
  if (arm.size() > 1) {
    throw ConfigError(two_variables_message(fmt::format("{}: {}", source, arm.dump())));
  }
  const std::vector<ToggleChoice> choices = choices_from_object(arm, source, "arms");
  toggles.insert(toggles.end(), choices.begin(), choices.end());
}

template <typename T>
void replace_if_said(std::optional<T>& value, const std::optional<T>& said) {
  if (said) value = said;
}

}  // namespace

bool Experiment::decides_plan() const {
  return title || model || device || ranks || !settings.empty() || toggles || grid || pairs ||
         arms || aa || rounds || seed || until_halfwidth || equivalence || warmup || steps ||
         trace_steps || graph_trace_steps || memory || counters;
}

Experiment experiment_from_json(const json& object, std::string_view source) {
  if (!object.is_object()) throw ConfigError(fmt::format("{}: not a JSON object", source));
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(kKeys, key) != kKeys.end()) continue;
    const std::string near = nearest_name(key, kKeys);
    throw ConfigError(fmt::format("{}: unknown key {}{}; takes {}", source, key,
                                  near.empty() ? "" : fmt::format(", did you mean {}?", near),
                                  fmt::join(kKeys, ", ")));
  }
  Experiment experiment;
  const auto read = [&]<typename T>(std::string_view key, std::optional<T>& value) {
    if (object.contains(key)) value = json_field<T>(object, source, key);
  };
  const auto read_integer = [&]<typename T>(std::string_view key, std::optional<T>& value) {
    if (!object.contains(key)) return;
    const json& number = object[std::string(key)];
    // nlohmann turns 1.5 into 1 silently.
    if (!number.is_number_integer() || (!number.is_number_unsigned() && number < 0)) {
      refuse(source, key, number, "an integer >= 0");
    }
    value = number.get<T>();
  };
  const auto read_ratio = [&](std::string_view key, std::optional<double>& value) {
    if (object.contains(key)) value = parse_ratio(key, text_of(object[std::string(key)]));
  };
  read("title", experiment.title);
  read("model", experiment.model);
  read("device", experiment.device);
  read("data", experiment.data);
  read_integer("ranks", experiment.ranks);
  read_integer("aa", experiment.aa);
  read_integer("rounds", experiment.rounds);
  read_integer("seed", experiment.seed);
  read("max_seconds", experiment.max_seconds);
  read_ratio("until_halfwidth", experiment.until_halfwidth);
  read_ratio("equivalence", experiment.equivalence);
  read_integer("warmup", experiment.warmup);
  read_integer("steps", experiment.steps);
  read_integer("trace_steps", experiment.trace_steps);
  read_integer("graph_trace_steps", experiment.graph_trace_steps);
  read("memory", experiment.memory);
  read("counters", experiment.counters);
  if (object.contains("set")) {
    if (!object["set"].is_object()) refuse(source, "set", object["set"], "{\"key\": value}");
    for (const auto& [key, value] : object["set"].items()) {
      experiment.settings.emplace_back(key, text_of(value));
    }
  }
  if (object.contains("toggles")) {
    experiment.toggles = choices_from_json(object["toggles"], source, "toggles");
  }
  if (object.contains("grid")) {
    experiment.grid = choices_from_json(object["grid"], source, "grid");
  }
  if (object.contains("pairs")) {
    experiment.pairs = choices_from_json(object["pairs"], source, "pairs");
  }
  if (object.contains("arms")) {
    const json& arms = object["arms"];
    if (!arms.is_array() && !arms.is_string()) {
      refuse(source, "arms", arms, "text as of --arms, or an array");
    }
    std::vector<ExternalArmChoice> external;
    std::vector<ToggleChoice> toggles = experiment.toggles.value_or(std::vector<ToggleChoice>{});
    for (const json& arm : arms.is_array() ? arms : json::array({arms})) {
      add_arm(arm, source, external, toggles);
    }
    // Nothing but {"toggle": "level"} arms: they say what to run, and no external arm does.
    if (!external.empty() || toggles.empty()) experiment.arms = external;
    if (!toggles.empty()) experiment.toggles = toggles;
  }
  return experiment;
}

Experiment read_experiment(const std::filesystem::path& path) {
  return experiment_from_json(read_json(path), path.string());
}

json to_json(const Experiment& experiment) {
  json object = json::object();
  const auto write = [&](std::string_view key, const auto& value) {
    if (value) object[std::string(key)] = *value;
  };
  const auto write_choices = [&](std::string_view key,
                                 const std::optional<std::vector<ToggleChoice>>& choices) {
    if (!choices) return;
    json& list = object[std::string(key)] = json::array();
    for (const ToggleChoice& choice : *choices) {
      list.push_back(choice.levels.empty()
                         ? choice.toggle
                         : fmt::format("{}={}", choice.toggle, fmt::join(choice.levels, "|")));
    }
  };
  write("title", experiment.title);
  write("model", experiment.model);
  write("device", experiment.device);
  write("ranks", experiment.ranks);
  for (const auto& [key, value] : experiment.settings) object["set"][key] = value;
  write_choices("toggles", experiment.toggles);
  write_choices("grid", experiment.grid);
  write_choices("pairs", experiment.pairs);
  if (experiment.arms) {
    json& names = object["arms"] = json::array();
    for (const ExternalArmChoice& arm : *experiment.arms) {
      if (arm.path.empty()) names.push_back(text_of(arm));
    }
  }
  write("aa", experiment.aa);
  write("rounds", experiment.rounds);
  write("seed", experiment.seed);
  write("max_seconds", experiment.max_seconds);
  write("until_halfwidth", experiment.until_halfwidth);
  write("equivalence", experiment.equivalence);
  write("warmup", experiment.warmup);
  write("steps", experiment.steps);
  write("trace_steps", experiment.trace_steps);
  write("graph_trace_steps", experiment.graph_trace_steps);
  write("memory", experiment.memory);
  write("counters", experiment.counters);
  return object;
}

Experiment overlaid(Experiment file, const Experiment& flags) {
  replace_if_said(file.title, flags.title);
  replace_if_said(file.model, flags.model);
  replace_if_said(file.device, flags.device);
  replace_if_said(file.ranks, flags.ranks);
  replace_if_said(file.data, flags.data);
  file.settings.insert(file.settings.end(), flags.settings.begin(), flags.settings.end());
  replace_if_said(file.toggles, flags.toggles);
  replace_if_said(file.grid, flags.grid);
  replace_if_said(file.pairs, flags.pairs);
  replace_if_said(file.arms, flags.arms);
  replace_if_said(file.aa, flags.aa);
  replace_if_said(file.rounds, flags.rounds);
  replace_if_said(file.seed, flags.seed);
  replace_if_said(file.max_seconds, flags.max_seconds);
  replace_if_said(file.until_halfwidth, flags.until_halfwidth);
  replace_if_said(file.equivalence, flags.equivalence);
  replace_if_said(file.warmup, flags.warmup);
  replace_if_said(file.steps, flags.steps);
  replace_if_said(file.trace_steps, flags.trace_steps);
  replace_if_said(file.graph_trace_steps, flags.graph_trace_steps);
  replace_if_said(file.memory, flags.memory);
  replace_if_said(file.counters, flags.counters);
  return file;
}

}  // namespace steplens
