#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace steplens {

/// What an item of evidence is a number of: where a reader finds it again.
enum class EvidenceKind : std::uint8_t {
  kStep,      // The whole step.
  kPhase,     // `key`: name_of(Phase).
  kCategory,  // name_of(KernelCategory).
  kKernel,    // Name as in the trace.
  kIdle,      // name_of(IdleClass).
  kCall,      // Name of a runtime or driver call.
  kCounter,   // Name of a counter track, or a key of block.json's samples.
  kMemory,    // A key of block.json's memory.
  kConfig,    // A config key.
};
std::string_view name_of(EvidenceKind kind);  // "step", "phase", "category", ...

/// One number that speaks for a finding.
struct Evidence {
  EvidenceKind kind = EvidenceKind::kStep;
  std::string key;
  std::string text;  // "idle: late launch 4.371 ms a step, 3.6 %"
};

/// How much there is to gain at best.
enum class Severity : std::uint8_t { kHigh, kMedium, kLow };
std::string_view name_of(Severity severity);  // "high", "medium", "low"

/// A bottleneck that a rule found in one arm.
struct Finding {
  std::string rule;   // Key of the rule: "launch_bound". Never renamed.
  std::string title;  // Its heading: "The host launches too late".
  std::string arm;
  std::string message;                   // What it means and what to do, in a sentence or two.
  std::vector<Evidence> evidence;        // Never empty.
  std::optional<double> max_gain_ratio;  // Upper bound of: rate without it / rate now. Above 1.
  std::string bound;                     // How the bound was computed, or why there is none.
  std::string toggle;                    // Of the switch that would test it; empty: there is none.
  std::string level;
  std::string command;      // To run, or empty.
  std::string measured;     // What this bundle has measured of that switch; empty: nothing.
  bool is_refuted = false;  // It was measured and gained nothing.
  Severity severity = Severity::kLow;
};

/// 10 % and more is high, 3 % and more medium; low without a bound and where it is refuted.
Severity severity_of(const Finding& finding);

nlohmann::json to_json(const std::vector<Finding>& findings);

}  // namespace steplens
