#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/bundle.h"
#include "harness/plan_syntax.h"
#include "harness/run_config.h"
#include "harness/toggle.h"

namespace steplens {

/// A block executable that comes with Steplens: `--arms torch-eager`.
struct KnownExternalArm {
  std::string_view name;
  std::string_view summary;
  std::string script;          // Below the folder of scripts.
  bool runs_on_ranks = false;  // It takes its place among the ranks of a block.
  Contract contract = Contract::kSameMaths;
};

/// What a plan may speak of. The catalog fills it; the harness knows no toggle by name.
struct PlanVocabulary {
  std::span<const Toggle> toggles;
  /// Why a config cannot run as a whole; empty if it can.
  std::string_view (*why_not)(const RunConfig& config) = nullptr;
  std::vector<KnownExternalArm> external_arms;
  std::filesystem::path scripts_folder;  // Where their scripts lie on this machine.
  /// Names the package that compile=aoti runs (harness/package_export.h).
  std::string (*package_name)(const RunConfig& config) = nullptr;
};

inline constexpr int kDefaultNumRounds = 12;
inline constexpr std::int64_t kDefaultTraceSteps = 10;
/// Steps of the memory block of each arm; the allocations of steady steps are alike.
inline constexpr std::int64_t kDefaultMemorySteps = 3;
/// Steps of the counters block of each arm: as many as of its trace.
inline constexpr std::int64_t kDefaultCounterSteps = 10;
/// Upper limit for `--until-halfwidth`, which looks from round 12 on.
inline constexpr int kDefaultMaxRoundsUntilHalfwidth = 60;

/// What to compare. Everything in it is decided before the first block.
struct MatrixRequest {
  std::string title;
  RunConfig baseline;  // With every --set applied.
  /// Absent: the default matrix, unless grid, external arms or A/A say what to run.
  std::optional<std::vector<ToggleChoice>> toggles;
  std::vector<ToggleChoice> grid;   // Empty or two.
  std::vector<ToggleChoice> pairs;  // Each alone, and every two of them together. Empty or more.
  std::optional<std::vector<ExternalArmChoice>> external_arms;
  int num_aa = 0;                 // > 0: that many comparisons of the baseline with itself.
  std::optional<int> num_rounds;  // Absent: the default.
  std::uint64_t seed = 1;         // Of the order of blocks and of permutations.
  std::optional<double> until_halfwidth_ratio;
  double equivalence_ratio = 1.01;
  std::int64_t num_warmup_steps = 0;       // Of the baseline. 0: the pilots decide.
  std::int64_t num_measured_steps = 0;     // The same.
  std::int64_t num_trace_steps = 0;        // Of each arm's trace; 0: none.
  std::int64_t num_graph_trace_steps = 0;  // Of each arm's trace of whole graphs; 0: none.
  std::int64_t num_memory_steps = 0;       // Of each arm's memory block; 0: none.
  std::int64_t num_counter_steps = 0;      // Of each arm's counters block; 0: none.
};

/// The arms and numbers of a matrix, before any block has run.
struct Plan {
  std::string title;
  RunConfig baseline;
  std::vector<Arm> arms;  // arms[0] is the baseline (A/A: aa-00).
  /// Maps an external arm's name to its command on this machine; `Arm::command` holds no folders.
  std::map<std::string, std::vector<std::string>> commands;
  int num_aa = 0;
  std::uint64_t seed = 1;
  int num_rounds = kDefaultNumRounds;
  std::optional<double> until_halfwidth_ratio;
  double equivalence_ratio = 1.01;
  std::int64_t num_warmup_steps = 0;
  std::int64_t num_measured_steps = 0;
  std::int64_t num_trace_steps = 0;
  std::int64_t num_graph_trace_steps = 0;
  std::int64_t num_memory_steps = 0;
  std::int64_t num_counter_steps = 0;
};

/// Builds the arms. Levels that cannot run are listed with their reason; levels at which the
/// baseline stands already are left out.
///
/// Grid: a cell (a, b) is compared with the cell that has the first toggle at the baseline's level,
/// or, where that one cannot run, with the cell that has the second there.
///
/// Pairs: a grid of every two of them.
///
/// ConfigError for unknown toggles, levels and arms (with the nearest name), for a baseline that
/// cannot run, and if nothing is left to compare.
Plan make_plan(const MatrixRequest& request, const PlanVocabulary& vocabulary);

/// The baseline alone, `num_rounds` times: nothing is compared. Toggles, grid and arms of the
/// request are not looked at.
Plan make_baseline_plan(const MatrixRequest& request, const PlanVocabulary& vocabulary);

/// The plan that a manifest records: what `--resume` continues. `commands` stays empty.
Plan plan_of(const Manifest& manifest);

/// ConfigError that names the first field in which `plan` differs from what the bundle records.
void refuse_other_plan(const Plan& plan, const Manifest& manifest);

/// Command of a known arm's script on this machine. ConfigError if the file is missing or is not
/// executable.
std::vector<std::string> command_of(const KnownExternalArm& arm,
                                    const std::filesystem::path& scripts_folder);

}  // namespace steplens
