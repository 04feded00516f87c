#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/bundle.h"
#include "harness/statistics.h"
#include "reports/overhead/tracing_cost.h"
#include "reports/proof.h"

namespace steplens {

/// One row of the matrix. JSON keys are the member names, unchanged; absent is null.
///
/// Rates and step times are geometric means over the arm's usable blocks, each block's rate being
/// its tokens / its time: so with the same rounds, rate / reference's rate is `effect_ratio`.
/// Memory and compile times are medians over the blocks; shares are of the blocks' sums.
struct ArmResult {
  std::string name;
  std::string toggle;
  std::string level;
  bool is_baseline = false;
  bool is_external = false;
  std::string reference;  // Empty for the baseline.
  bool is_single_variable = false;
  std::vector<std::string> differing_keys;  // Config keys, "program", "environment.<path>".
  Contract contract = Contract::kSameMaths;
  bool is_applicable = true;  // Not: listed with its reason, never run.

  std::optional<Verdict> verdict;      // Absent for the baseline and for what is not applicable.
  bool is_within_one_percent = false;  // The whole interval, by the rule's equivalence ratio.
  Proof proof = Proof::kNotChecked;
  std::string proof_reason;
  std::vector<ProofCheck> proof_checks;

  std::optional<double> effect_ratio;  // Candidate / reference of valid_tokens_per_s.
  std::optional<double> effect_low_ratio;
  std::optional<double> effect_high_ratio;
  std::optional<double> effect_per_cycle_ratio;  // Only where the mean SM clocks differ by > 1 %.
  std::optional<double> p_value;                 // Absent below the rule's rounds.
  std::optional<double> p_adjusted;
  std::optional<double> min_detectable_ratio;  // Smallest effect with 80 % power; from 8 rounds on.
  int num_rounds = 0;         // Pairs of the estimate; of the baseline: its usable blocks.
  int num_failed_blocks = 0;  // Ended other than ok, repeats included.

  std::optional<double> positions_per_s;     // All processed positions.
  std::optional<double> valid_tokens_per_s;  // No padding.
  std::optional<double> loss_tokens_per_s;
  std::optional<double> step_wall_ns;
  std::optional<double> step_gpu_ns;
  std::optional<double> pooled_step_p50_ns;  // Of all steps of all blocks together: a description,
  std::optional<double> pooled_step_p90_ns;  // never part of a test.
  std::optional<double> pooled_step_p99_ns;
  std::optional<double> data_wait_ratio;  // Of step_wall_ns.
  std::optional<double> compile_ns;       // Graph capture, compile, autotune: outside the steps.
  std::optional<double> block_sd_ratio;   // Of one block's log rate, slow drift taken out.
  bool has_unequal_noise = false;
  OutlierCounts step_outliers;   // Within blocks, summed over them.
  OutlierCounts block_outliers;  // Among the block rates.

  std::optional<double> mfu_causal_ratio;
  std::optional<double> mfu_full_ratio;
  std::optional<double> peak_flops_per_s;
  std::string peak_source;
  std::int64_t num_matmul_parameters = 0;
  std::string mfu_reason;  // Why there is no MFU.

  std::optional<std::int64_t> peak_allocated_bytes;
  std::optional<std::int64_t> peak_reserved_bytes;
  std::optional<std::int64_t> graph_pool_hidden_bytes;  // Of captured graphs; inside the peak.
  std::optional<std::int64_t> driver_used_bytes;
  std::optional<std::int64_t> unaccounted_bytes;  // Driver's peak - reserved: context, workspaces.
  std::optional<std::int64_t> peak_rss_bytes;
  std::optional<std::int64_t>
      num_alloc_retries;  // A block's cudaMalloc calls that failed at first.

  std::optional<double> energy_per_token_j;
  std::optional<double> mean_power_watts;
  std::optional<double> mean_sm_clock_mhz;
  std::optional<double> max_temperature_celsius;
  std::optional<double> cpu_time_ratio;           // CPU seconds a wall second, all threads.
  std::map<std::string, double> throttle_shares;  // Reason -> share of the measured time.

  std::optional<double>
      loss_deviation_ratio;  // Mean |ratio - 1| against the reference, worst round.
  std::optional<double> grad_norm_deviation_ratio;
  std::optional<double> loss_tolerance_ratio;
  std::optional<double> grad_norm_tolerance_ratio;
  std::vector<std::string> guard_failures;  // Sentences.

  std::vector<std::string> labels;  // "multi-variable", "clock-mediated", ...
  std::string reason;  // Of FAILED, MATHS_DIFFERS, NO_EFFECT, NOT_ENOUGH_ROUNDS, not applicable.
};

/// Outcome of an A/A: does the tool call its own noise an effect?
struct AaResult {
  int num_comparisons = 0;                        // With a p value.
  int num_rejected = 0;                           // Raw p <= 0.05.
  int num_allowed = 0;                            // 97.5 % quantile of what a correct tool shows.
  std::optional<double> median_half_width_ratio;  // Of the log-ratios' intervals.
  bool is_accepted = false;
};

/// One block that did not end well.
struct BlockFailure {
  std::string arm;
  std::string folder;
  std::string status;
  std::string reason;
};

/// Content of results.json: all that a report says, derived from the bundle alone.
struct Results {
  int schema_version = kSchemaVersion;
  std::vector<ArmResult> arms;  // In the order of the manifest.
  VerdictRule rule;
  int num_comparisons = 0;  // Size of the family that the adjusted p values hold over.
  int num_rounds_planned = 0;
  int num_rounds_complete = 0;
  int num_rounds_dropped = 0;
  std::string stop_reason;                     // Empty: the matrix is unfinished.
  std::optional<bool> has_drift;               // Absent: too few rounds to see.
  double wall_ns = 0;                          // First block's start to last block's end.
  double measured_ns = 0;                      // Sum of the measured steps of usable blocks.
  std::optional<double> measured_share_ratio;  // measured_ns / sum of all blocks' durations.
  std::optional<AaResult> aa;
  std::optional<TracingCosts> tracing_costs;  // Of a matrix that has tracing as arms.
  std::vector<BlockFailure> failures;
  std::vector<std::string> warnings;  // Sentences; what a careful reader must know.
};

/// Everything follows from manifest and blocks: the same bundle always gives the same numbers.
/// Never throws for what a bundle may hold: what cannot be computed is absent with a reason.
Results compute_results(const Bundle& bundle);

nlohmann::json to_json(const Results& results);

/// ConfigError names `source` and the field that is wrong. Fields that are missing keep their
/// default: older programs wrote fewer.
Results results_from_json(const nlohmann::json& json, std::string_view source);

/// Returns nullptr if there is no such arm.
const ArmResult* find_arm(const Results& results, std::string_view name);

/// The baseline's row; in an A/A the first arm. Returns nullptr if there are no arms.
const ArmResult* baseline_of(const Results& results);

}  // namespace steplens
