#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/plan_syntax.h"

namespace steplens {

/// A matrix in the user's words, each absent unless said: from flags, from a file, or from both.
struct Experiment {
  std::optional<std::string> title;
  std::optional<std::string> model;
  std::optional<std::string> device;  // "auto", "cpu" or "cuda".
  std::optional<int> ranks;
  std::optional<std::string> data;                            // Path of the token file.
  std::vector<std::pair<std::string, std::string>> settings;  // Key and value, later ones win.
  std::optional<std::vector<ToggleChoice>> toggles;
  std::optional<std::vector<ToggleChoice>> grid;
  std::optional<std::vector<ToggleChoice>> pairs;
  std::optional<std::vector<ExternalArmChoice>> arms;
  std::optional<int> aa;
  std::optional<int> rounds;
  std::optional<std::uint64_t> seed;
  std::optional<double> max_seconds;
  std::optional<double> until_halfwidth;
  std::optional<double> equivalence;
  std::optional<std::int64_t> warmup;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> trace_steps;
  std::optional<std::int64_t> graph_trace_steps;
  std::optional<bool> memory;    // A memory block of each arm.
  std::optional<bool> counters;  // A counters block of each arm.

  /// True if something is said that decides what is compared; the time limit and the place of the
  /// data do not.
  bool decides_plan() const;
};

/// Reads an experiment file. Its keys are the words of the flags:
///
///   {"model": "nano", "set": {"sequence_length": 256}, "toggles": {"attention": ["math"]},
///    "arms": ["torch-eager", {"optimizer": "fused"}], "rounds": 12, "seed": 1}
///
/// `toggles`, `grid`, `pairs` and `arms` also take the flags' text. ConfigError names `source`, the
/// key and what is allowed; unknown keys come with the nearest one; an arm that sets two toggles is
/// refused.
Experiment experiment_from_json(const nlohmann::json& json, std::string_view source);
Experiment read_experiment(const std::filesystem::path& path);

/// The same as such a file, without what is said of places on this machine: the data's path, the
/// programs of arms that do not come with Steplens.
nlohmann::json to_json(const Experiment& experiment);

/// `file` with everything that `flags` says in its place; settings of both, those of `flags` last.
Experiment overlaid(Experiment file, const Experiment& flags);

}  // namespace steplens
