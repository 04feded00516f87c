#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/bundle.h"

namespace steplens {

/// Whether a toggle changed what ran, by the counters of the arm's own pilot.
enum class Proof : std::uint8_t { kProven, kNoEffect, kNotChecked };
std::string_view name_of(Proof proof);         // "proven", "no_effect", "not_checked"
Proof proof_from_name(std::string_view name);  // ConfigError for an unknown name.

/// One claim with the counts that decide it, a step of the optimizer each.
struct ProofCheck {
  std::string counter;
  Claim claim = Claim::kPresent;
  std::optional<double> candidate_count;  // Absent: no pilot counted anything.
  std::optional<double> reference_count;
  std::optional<bool> holds;  // Absent: a number that it needs is missing.

  bool operator==(const ProofCheck&) const = default;
};

struct ProofResult {
  Proof proof = Proof::kNotChecked;
  std::string reason;  // One sentence, with the counts.
  std::vector<ProofCheck> checks;
};

/// Evaluates the arm's claims against `evidence.counters` of its last good pilot and of its
/// reference's, and those that begin with "trace." against `evidence.trace_counters` of the arms'
/// traces; an arm without a trace is not held to them. A counter that counters lack counts 0 times;
/// one that a claim compares and that both traces' counters lack is counted anew from the traces.
/// One claim that fails is "no effect"; a number that is missing altogether leaves the proof "not
/// checked".
ProofResult prove(const Bundle& bundle, const Arm& arm);

/// "sdpa_math present", "cuda_graph_launches equal to the level".
std::string describe(const ProofCheck& check);

}  // namespace steplens
