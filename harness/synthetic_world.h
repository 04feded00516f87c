#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// A made-up GPU with known truth: the noise, drift and swings of real step times, and arms whose
/// true effect is chosen. It answers what no measurement can: how often the statistics call a null
/// effect real, and how often they find a real one.
namespace steplens {

/// Noise of the world, in log step time (0.01 is one percent).
struct SyntheticNoise {
  double step_correlation = 0.6;            // AR(1) from step to step within a block.
  double step_standard_deviation = 0.004;   // Of a step, stationary.
  int num_steps = 50;                       // In a block.
  double block_standard_deviation = 0.003;  // Shared by the steps of a block: a fresh process.
  double drift_log_ratio = 0.008;  // Linear over the run, times U(0.5, 1.5): the machine warms up.
  double sine_log_ratio = 0.003;   // Amplitude of a swing of random phase: other load, the room.
  double min_sine_period_ratio = 0.15;  // Its period, uniform, as a share of the run.
  double max_sine_period_ratio = 0.55;
};

/// One block of a synthetic run.
struct SyntheticBlock {
  int round_index = 0;
  int arm_index = 0;
  std::vector<double> step_log_times;  // Of the true baseline: 0 is its undisturbed step time.
};

/// Runs `num_rounds` rounds of all arms and returns the blocks in the order in which they ran,
/// which is `draw_round_order` of `seed`. `arm_log_ratios[arm]`: the arm's true log rate, 0 for a
/// baseline.
std::vector<SyntheticBlock> simulate_run(std::span<const double> arm_log_ratios, int num_rounds,
                                         std::uint64_t seed, const SyntheticNoise& noise = {});

/// The same run as log rates of its blocks, [arm][round]: minus the log of the mean step time.
std::vector<std::vector<double>> simulate_log_rates(std::span<const double> arm_log_ratios,
                                                    int num_rounds, std::uint64_t seed,
                                                    const SyntheticNoise& noise = {});

/// Per round: candidate - reference.
std::vector<double> log_ratios_of(std::span<const double> candidate_log_rates,
                                  std::span<const double> reference_log_rates);

/// How many of `num_comparisons` independent A/A comparisons, each one arm against its baseline in
/// a world of its own, have a raw p <= 0.05.
int count_aa_rejections(int num_comparisons, int num_rounds, std::uint64_t seed);

/// The same for one run of A/A mode: `num_comparisons` + 1 equal arms, each against the next.
int count_aa_run_rejections(int num_comparisons, int num_rounds, std::uint64_t seed);

/// Share of `num_worlds` worlds in which at least one of `num_comparisons` null effects against one
/// baseline has an adjusted p <= 0.05.
double simulate_family_wise_error_ratio(int num_comparisons, int num_rounds, int num_worlds,
                                        std::uint64_t seed);

/// A question about power: one comparison of `num_comparisons` has an effect, the others have none.
struct PowerCase {
  int num_comparisons = 1;
  int num_rounds = 10;
  double effect_ratio = 1.01;  // True rate of the candidate / rate of the baseline.
};

/// Share of `num_worlds` worlds in which that effect has an adjusted p <= 0.05 and the right sign.
double simulate_power_ratio(const PowerCase& power_case, int num_worlds, std::uint64_t seed);

/// One line of the self-test: a figure that the statistics promise, and what simulation gives now.
struct SelfTestRow {
  std::string claim;
  double simulated = 0;
  double bound = 0;
  bool is_upper_bound = false;  // Whether `simulated` must not exceed `bound`; else the reverse.

  bool is_met() const { return is_upper_bound ? simulated <= bound : simulated >= bound; }
};

/// The seed of the published self-test, so that everybody gets the same figures.
constexpr std::uint64_t kSelfTestSeed = 20260101;

/// All promises: A/A rejections, family-wise error and power. About two seconds of one core.
/// Correct statistics miss a bound for about one seed in fifty, by the luck of the draw.
std::vector<SelfTestRow> run_statistics_self_test(std::uint64_t seed = kSelfTestSeed);

}  // namespace steplens
