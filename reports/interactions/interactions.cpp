#include "reports/interactions/interactions.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

// A pair with one number a round.
struct Contrast {
  Interaction interaction;
  LogRates values;
};

std::optional<Contrast> contrast_of(const Bundle& bundle, const Arm& cell) {
  const std::size_t plus = cell.name.find('+');
  if (plus == std::string::npos) return std::nullopt;
  Contrast contrast{.interaction = {.first = cell.name.substr(0, plus),
                                    .second = cell.name.substr(plus + 1),
                                    .cell = cell.name}};
  const Arm* first = find_arm(bundle.manifest, contrast.interaction.first);
  const Arm* second = find_arm(bundle.manifest, contrast.interaction.second);
  if (first == nullptr || second == nullptr || bundle.manifest.arms.empty()) return std::nullopt;
  const LogRates both = log_rates(bundle, cell.name);
  const LogRates one = log_rates(bundle, first->name);
  const LogRates other = log_rates(bundle, second->name);
  const LogRates baseline = log_rates(bundle, bundle.manifest.arms.front().name);
  for (const auto& [round, rate] : both) {
    if (!one.contains(round) || !other.contains(round) || !baseline.contains(round)) continue;
    contrast.values[round] = rate - one.at(round) - other.at(round) + baseline.at(round);
  }
  if (contrast.values.empty()) return std::nullopt;
  return contrast;
}

std::vector<double> values_in(const LogRates& values, const std::vector<int>& rounds) {
  std::vector<double> result;
  result.reserve(rounds.size());
  for (const int round : rounds) result.push_back(values.at(round));
  return result;
}

std::vector<int> rounds_of(const LogRates& values) {
  std::vector<int> rounds;
  for (const auto& [round, value] : values) rounds.push_back(round);
  return rounds;
}

// Those that all pairs have: whole rounds are flipped.
std::vector<int> shared_rounds(const std::vector<Contrast>& contrasts) {
  std::vector<int> shared = rounds_of(contrasts.front().values);
  for (const Contrast& contrast : contrasts) {
    std::erase_if(shared, [&](int round) { return !contrast.values.contains(round); });
  }
  return shared;
}

InteractionKind kind_of(const Estimate& estimate, const std::optional<double>& p_adjusted,
                        const VerdictRule& rule) {
  if (!p_adjusted) return InteractionKind::kNotEnoughRounds;
  if (*p_adjusted <= rule.alpha) {
    return estimate.mean_log_ratio > 0 ? InteractionKind::kSynergy : InteractionKind::kOverlap;
  }
  return is_within_one_percent(estimate, rule) ? InteractionKind::kIndependent
                                               : InteractionKind::kNotProven;
}

}  // namespace

std::string_view name_of(InteractionKind kind) {
  switch (kind) {
    case InteractionKind::kSynergy: return "synergy";
    case InteractionKind::kOverlap: return "overlap";
    case InteractionKind::kIndependent: return "independent";
    case InteractionKind::kNotProven: return "not proven";
    case InteractionKind::kNotEnoughRounds: return "not enough rounds";
  }
  return "";
}

std::vector<Interaction> compute_interactions(const Bundle& bundle, const VerdictRule& rule) {
  std::vector<Contrast> contrasts;
  for (const Arm& arm : bundle.manifest.arms) {
    if (std::optional<Contrast> contrast = contrast_of(bundle, arm)) {
      contrasts.push_back(std::move(*contrast));
    }
  }
  if (contrasts.empty()) return {};
  const std::vector<int> shared = shared_rounds(contrasts);
  std::vector<double> p_adjusted;
  if (std::ssize(shared) >= rule.min_rounds) {
    std::vector<std::vector<double>> family;
    family.reserve(contrasts.size());
    for (const Contrast& contrast : contrasts) family.push_back(values_in(contrast.values, shared));
    p_adjusted = step_down_max_t(family, bundle.manifest.seed);
  }
  std::vector<Interaction> interactions;
  for (std::size_t i = 0; i < contrasts.size(); ++i) {
    Interaction interaction = std::move(contrasts[i].interaction);
    const LogRates& values = contrasts[i].values;
    const Estimate estimate =
        estimate_log_ratio(values_in(values, rounds_of(values)), rule.confidence);
    interaction.ratio = std::exp(estimate.mean_log_ratio);
    interaction.low_ratio = std::exp(estimate.low_log_ratio);
    interaction.high_ratio = std::exp(estimate.high_log_ratio);
    interaction.num_rounds = estimate.num_rounds;
    if (!p_adjusted.empty()) interaction.p_adjusted = p_adjusted[i];
    interaction.kind = kind_of(estimate, interaction.p_adjusted, rule);
    interactions.push_back(std::move(interaction));
  }
  return interactions;
}

nlohmann::json to_json(const std::vector<Interaction>& interactions) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Interaction& pair : interactions) {
    rows.push_back({{"first", pair.first},
                    {"second", pair.second},
                    {"cell", pair.cell},
                    {"ratio", pair.ratio},
                    {"low_ratio", pair.low_ratio},
                    {"high_ratio", pair.high_ratio},
                    {"num_rounds", pair.num_rounds},
                    {"p_adjusted",
                     pair.p_adjusted ? nlohmann::json(*pair.p_adjusted) : nlohmann::json(nullptr)},
                    {"kind", name_of(pair.kind)}});
  }
  return rows;
}

std::string interaction_sentence(const Interaction& interaction) {
  return fmt::format(
      "{} and {}: {}, {}", interaction.first, interaction.second, name_of(interaction.kind),
      format_effect(interaction.ratio, interaction.low_ratio, interaction.high_ratio));
}

Table interaction_table(const std::vector<Interaction>& interactions) {
  Table table{.columns = {{"pair"},
                          {"beyond the product [95 %]"},
                          {"adj. p", Align::kRight},
                          {"rounds", Align::kRight},
                          {"in a word"}}};
  for (const Interaction& pair : interactions) {
    table.rows.push_back({fmt::format("{} and {}", pair.first, pair.second),
                          format_effect(pair.ratio, pair.low_ratio, pair.high_ratio),
                          format_or_absent(pair.p_adjusted, format_p),
                          format_count(pair.num_rounds), std::string(name_of(pair.kind))});
  }
  return table;
}

std::string interaction_text(const std::vector<Interaction>& interactions) {
  return interactions.empty() ? "" : "\n" + to_text(interaction_table(interactions));
}

}  // namespace steplens
