#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/bundle.h"
#include "harness/statistics.h"
#include "reports/document.h"

/// Do two switches help each other? Of every cell of a grid or of pairs ("A+B") whose single arms
/// were measured too: log-ratio(AB) - log-ratio(A) - log-ratio(B), all against the baseline of the
/// same round. 0: together they do what they do alone.
namespace steplens {

/// What the numbers say of a pair.
enum class InteractionKind : std::uint8_t {
  kSynergy,      // Together more than the product of both.
  kOverlap,      // Together less: both win the same time, or one undoes the other.
  kIndependent,  // The whole interval lies within the rule's equivalence ratio.
  kNotProven,
  kNotEnoughRounds,
};
std::string_view name_of(InteractionKind kind);  // "synergy", "overlap", "independent", ...

struct Interaction {
  std::string first;  // Names of the single arms.
  std::string second;
  std::string cell;  // Name of the arm that has both.
  /// Rate of both together / what the product of their effects would give.
  double ratio = 1;
  double low_ratio = 1;
  double high_ratio = 1;
  int num_rounds = 0;                // In which all four arms have a usable block.
  std::optional<double> p_adjusted;  // Over all pairs, by step-down max-T; absent below 6 rounds.
  InteractionKind kind = InteractionKind::kNotProven;
};

/// One for each pair that can be computed, in the order of the manifest.
std::vector<Interaction> compute_interactions(const Bundle& bundle, const VerdictRule& rule);

nlohmann::json to_json(const std::vector<Interaction>& interactions);

/// One row a pair.
Table interaction_table(const std::vector<Interaction>& interactions);

/// The same as text behind an empty line; empty without a pair.
std::string interaction_text(const std::vector<Interaction>& interactions);

/// "attention=cudnn and optimizer=fused: independent, +0.1 % [-0.2, 0.4]."
std::string interaction_sentence(const Interaction& interaction);

/// A square of all single arms: how much more or less a pair gives than its parts. An SVG file;
/// empty without a pair.
std::string interactions_svg(const std::vector<Interaction>& interactions);

inline constexpr std::string_view kInteractionsPlot = "interactions.svg";

}  // namespace steplens
