#pragma once

#include <span>
#include <string>
#include <string_view>

#include "harness/run_config.h"

namespace steplens {

/// What two levels of a toggle must have in common, checked in every comparison.
enum class Contract {
  kSameMaths,       // Same tokens in the same order, same loss trajectory within tolerance.
  kSameTokens,      // Same documents and equal valid tokens; the order is free.
  kDifferentMaths,  // Same work; another training problem. The report's row says so.
  // Same work and maths, computed below the precision that the config names: how far the loss
  // trajectory leaves the reference's is shown, and has no limit.
  kLowerPrecision,
  // The forward passes of the same work, and no training: a row of its own, without an effect.
  kForwardOnly,
};
std::string_view name_of(Contract contract);  // "same_maths", "same_tokens", "different_maths", ...
Contract contract_from_name(std::string_view name);  // ConfigError for an unknown name.

/// One setting of a toggle, such as `flash` of `attention`.
struct Level {
  std::string_view name;
  void (*apply)(RunConfig&);  // Edits one independent key of the config, nothing else.
  /// Reason why this level cannot run with the rest of `config`, a whole sentence; empty if it can.
  std::string_view (*why_not)(const RunConfig& config) = nullptr;
};

/// What the counters of an arm's pilot must show (`evidence.counters` of its block.json, counts per
/// optimizer step); METHOD rule "proof of effect". A toggle's row holds these; a plan copies them
/// into its arms, so that `verify` recomputes the proof from the bundle alone.
enum class Claim {
  kPresent,             // Counter > 0.
  kAbsent,              // Counter missing or 0.
  kEqualsLevel,         // Counter = the level's name read as a number.
  kMoreThanReference,   // Strictly more than in the reference arm's pilot.
  kFewerThanReference,  // Strictly fewer.
  kOtherThanReference,  // More or fewer.
};
std::string_view name_of(Claim claim);  // "present", "absent", "equals_level", ...
Claim claim_from_name(std::string_view name);
/// Whether it compares with the reference arm.
bool is_relative(Claim claim);

/// Where a counter shows what it counts. The package of compile=aoti calls kernels past LibTorch's
/// dispatcher, so that operators of the forward and backward pass go uncounted there.
enum class Sight : std::uint8_t { kEverywhere, kOutsidePackages, kInPackages };

struct EvidenceRule {
  std::string_view level;  // The level that it proves.
  Device device;           // Where it applies.
  std::string_view counter;
  Claim claim;
  Sight sight = Sight::kEverywhere;
};

/// Whether `rule` can be checked on `config`: its counter must be seen there and, if the two are
/// compared, in `reference` too.
bool is_in_sight(const EvidenceRule& rule, const RunConfig& config, const RunConfig& reference);

/// One variable of the training step: the unit of every before/after comparison.
struct Toggle {
  std::string_view name;     // CLI word and JSON key. Never renamed: old reports use it.
  std::string_view summary;  // One line, for --help and the report.
  std::string_view key;      // The config key that its levels edit.
  std::span<const Level> levels;
  std::span<const EvidenceRule> evidence = {};
  Contract contract = Contract::kSameMaths;
  /// Contract where it depends on the rest of the config (accumulation with the micro-batch held).
  Contract (*contract_for)(const RunConfig&) = nullptr;
  bool is_in_default_matrix = false;  // Part of `steplens matrix` with no --toggles on a CPU.
};

Contract contract_of(const Toggle& toggle, const RunConfig& config);

/// Returns nullptr if no toggle of `toggles` has that name.
const Toggle* find_toggle(std::span<const Toggle> toggles, std::string_view name);

/// Returns nullptr if `toggle` has no level of that name.
const Level* find_level(const Toggle& toggle, std::string_view name);

/// The level of `toggle` at which `config` stands.
std::string current_level(const Toggle& toggle, const RunConfig& config);

}  // namespace steplens
