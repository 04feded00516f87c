#include "harness/toggle.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::array<std::string_view, 5> kContracts = {
    "same_maths", "same_tokens", "different_maths", "lower_precision", "forward_only"};
constexpr std::array<std::string_view, 6> kClaims = {"present",
                                                     "absent",
                                                     "equals_level",
                                                     "more_than_reference",
                                                     "fewer_than_reference",
                                                     "other_than_reference"};

template <std::size_t N>
std::size_t index_or_throw(const std::array<std::string_view, N>& words, std::string_view name,
                           std::string_view what) {
  const auto it = std::ranges::find(words, name);
  if (it == words.end()) {
    throw ConfigError(fmt::format("{}={}: unknown; takes {}", what, name, fmt::join(words, " | ")));
  }
  return static_cast<std::size_t>(it - words.begin());
}

}  // namespace

std::string_view name_of(Contract contract) {
  return kContracts.at(static_cast<std::size_t>(contract));
}
Contract contract_from_name(std::string_view name) {
  return static_cast<Contract>(index_or_throw(kContracts, name, "contract"));
}

std::string_view name_of(Claim claim) { return kClaims.at(static_cast<std::size_t>(claim)); }
Claim claim_from_name(std::string_view name) {
  return static_cast<Claim>(index_or_throw(kClaims, name, "claim"));
}

bool is_relative(Claim claim) {
  return claim == Claim::kMoreThanReference || claim == Claim::kFewerThanReference ||
         claim == Claim::kOtherThanReference;
}

bool is_in_sight(const EvidenceRule& rule, const RunConfig& config, const RunConfig& reference) {
  const auto is_seen = [&](const RunConfig& c) {
    const bool is_in_package = c.compile == Compile::kAoti;
    return rule.sight == Sight::kEverywhere || is_in_package == (rule.sight == Sight::kInPackages);
  };
  return is_seen(config) && (!is_relative(rule.claim) || is_seen(reference));
}

Contract contract_of(const Toggle& toggle, const RunConfig& config) {
  return toggle.contract_for != nullptr ? toggle.contract_for(config) : toggle.contract;
}

const Toggle* find_toggle(std::span<const Toggle> toggles, std::string_view name) {
  const auto it = std::ranges::find(toggles, name, &Toggle::name);
  return it == toggles.end() ? nullptr : &*it;
}

const Level* find_level(const Toggle& toggle, std::string_view name) {
  const auto it = std::ranges::find(toggle.levels, name, &Level::name);
  return it == toggle.levels.end() ? nullptr : &*it;
}

std::string current_level(const Toggle& toggle, const RunConfig& config) {
  // The level whose edit changes nothing is the one that the config stands at.
  for (const Level& level : toggle.levels) {
    RunConfig edited = config;
    level.apply(edited);
    if (edited == config) return std::string(level.name);
  }
  const ConfigField* field = find_config_field(toggle.key);
  SL_CHECK(field != nullptr);
  const nlohmann::json value = field->get(config);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace steplens
