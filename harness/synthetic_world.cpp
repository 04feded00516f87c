#include "harness/synthetic_world.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/statistics.h"

namespace steplens {
namespace {

constexpr double kAlpha = 0.05;

// Stream indices at the top of the range: the rounds' orders use the small ones.
constexpr std::uint64_t kNoiseStream = ~std::uint64_t{0};
constexpr std::uint64_t kPermutationStream = kNoiseStream - 1;

/// The part of the world that all blocks share: a function of the time into the run, 0 to 1.
class SlowChange {
 public:
  SlowChange(const SyntheticNoise& noise, SplitMix64& random)
      : slope_(noise.drift_log_ratio * (0.5 + random.uniform())),
        amplitude_(noise.sine_log_ratio),
        phase_(random.uniform()),
        period_(noise.min_sine_period_ratio +
                (noise.max_sine_period_ratio - noise.min_sine_period_ratio) * random.uniform()) {}

  double at(double run_share) const {
    return slope_ * run_share +
           amplitude_ * std::sin(2 * std::numbers::pi * (run_share / period_ + phase_));
  }

 private:
  double slope_;
  double amplitude_;
  double phase_;   // In periods.
  double period_;  // As a share of the run.
};

/// Adjusted p values of all arms after the first against the first, in one fresh world.
std::vector<double> simulate_adjusted_p(std::span<const double> arm_log_ratios, int num_rounds,
                                        std::uint64_t seed,
                                        std::vector<std::vector<double>>& log_ratios_by_arm) {
  const auto log_rates = simulate_log_rates(arm_log_ratios, num_rounds, seed);
  log_ratios_by_arm.clear();
  for (std::size_t arm = 1; arm < log_rates.size(); ++arm) {
    log_ratios_by_arm.push_back(log_ratios_of(log_rates[arm], log_rates[0]));
  }
  return step_down_max_t(log_ratios_by_arm, SplitMix64(seed, kPermutationStream).next());
}

std::uint64_t world_seed(std::uint64_t seed, int world) {
  return SplitMix64(seed, static_cast<std::uint64_t>(world)).next();
}

}  // namespace

std::vector<SyntheticBlock> simulate_run(std::span<const double> arm_log_ratios, int num_rounds,
                                         std::uint64_t seed, const SyntheticNoise& noise) {
  SL_CHECK(num_rounds >= 0 && noise.num_steps > 0 && std::abs(noise.step_correlation) < 1);
  SplitMix64 random(seed, kNoiseStream);
  const SlowChange slow_change(noise, random);
  const double innovation_standard_deviation =
      noise.step_standard_deviation *
      std::sqrt(1 - noise.step_correlation * noise.step_correlation);
  const int num_arms = static_cast<int>(arm_log_ratios.size());
  const double num_run_steps = static_cast<double>(num_rounds) * num_arms * noise.num_steps;

  std::vector<SyntheticBlock> blocks;
  double num_steps_done = 0;
  for (int round = 0; round < num_rounds; ++round) {
    for (const int arm : draw_round_order(seed, round, num_arms)) {
      SyntheticBlock block{.round_index = round, .arm_index = arm};
      const double block_log_time = noise.block_standard_deviation * random.normal() -
                                    arm_log_ratios[static_cast<std::size_t>(arm)];
      // Starts in the stationary distribution: warm-up is over.
      double deviation = noise.step_standard_deviation * random.normal();
      for (int step = 0; step < noise.num_steps; ++step) {
        if (step > 0) {
          deviation =
              noise.step_correlation * deviation + innovation_standard_deviation * random.normal();
        }
        block.step_log_times.push_back(block_log_time + deviation +
                                       slow_change.at(num_steps_done / num_run_steps));
        ++num_steps_done;
      }
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

std::vector<std::vector<double>> simulate_log_rates(std::span<const double> arm_log_ratios,
                                                    int num_rounds, std::uint64_t seed,
                                                    const SyntheticNoise& noise) {
  std::vector<std::vector<double>> log_rates(
      arm_log_ratios.size(), std::vector<double>(static_cast<std::size_t>(num_rounds)));
  for (const SyntheticBlock& block : simulate_run(arm_log_ratios, num_rounds, seed, noise)) {
    // A block's rate is its tokens over the sum of its step times.
    double sum_of_times = 0;
    for (const double log_time : block.step_log_times) sum_of_times += std::exp(log_time);
    log_rates[static_cast<std::size_t>(block.arm_index)]
             [static_cast<std::size_t>(block.round_index)] =
                 -std::log(sum_of_times / noise.num_steps);
  }
  return log_rates;
}

std::vector<double> log_ratios_of(std::span<const double> candidate_log_rates,
                                  std::span<const double> reference_log_rates) {
  SL_CHECK(candidate_log_rates.size() == reference_log_rates.size());
  std::vector<double> log_ratios(candidate_log_rates.begin(), candidate_log_rates.end());
  for (std::size_t round = 0; round < log_ratios.size(); ++round) {
    log_ratios[round] -= reference_log_rates[round];
  }
  return log_ratios;
}

int count_aa_rejections(int num_comparisons, int num_rounds, std::uint64_t seed) {
  constexpr double kNoEffect[] = {0, 0};
  int num_rejections = 0;
  for (int comparison = 0; comparison < num_comparisons; ++comparison) {
    const std::uint64_t comparison_seed = world_seed(seed, comparison);
    const auto log_rates = simulate_log_rates(kNoEffect, num_rounds, comparison_seed);
    const double p = sign_flip_p(log_ratios_of(log_rates[1], log_rates[0]),
                                 SplitMix64(comparison_seed, kPermutationStream).next());
    if (p <= kAlpha) ++num_rejections;
  }
  return num_rejections;
}

int count_aa_run_rejections(int num_comparisons, int num_rounds, std::uint64_t seed) {
  const std::vector<double> no_effect(static_cast<std::size_t>(num_comparisons) + 1, 0.0);
  const auto log_rates = simulate_log_rates(no_effect, num_rounds, seed);
  int num_rejections = 0;
  for (std::size_t arm = 0; arm + 1 < log_rates.size(); ++arm) {
    const double p = sign_flip_p(log_ratios_of(log_rates[arm], log_rates[arm + 1]),
                                 SplitMix64(seed, kPermutationStream - arm).next());
    if (p <= kAlpha) ++num_rejections;
  }
  return num_rejections;
}

double simulate_family_wise_error_ratio(int num_comparisons, int num_rounds, int num_worlds,
                                        std::uint64_t seed) {
  SL_CHECK(num_worlds > 0);
  const std::vector<double> no_effect(static_cast<std::size_t>(num_comparisons) + 1, 0.0);
  std::vector<std::vector<double>> log_ratios_by_arm;
  int num_errors = 0;
  for (int world = 0; world < num_worlds; ++world) {
    const std::vector<double> p =
        simulate_adjusted_p(no_effect, num_rounds, world_seed(seed, world), log_ratios_by_arm);
    if (std::ranges::any_of(p, [](double value) { return value <= kAlpha; })) ++num_errors;
  }
  return static_cast<double>(num_errors) / num_worlds;
}

double simulate_power_ratio(const PowerCase& power_case, int num_worlds, std::uint64_t seed) {
  SL_CHECK(num_worlds > 0 && power_case.num_comparisons > 0 && power_case.effect_ratio > 0);
  std::vector<double> arm_log_ratios(static_cast<std::size_t>(power_case.num_comparisons) + 1, 0.0);
  const double effect = std::log(power_case.effect_ratio);
  arm_log_ratios[1] = effect;
  std::vector<std::vector<double>> log_ratios_by_arm;
  int num_found = 0;
  for (int world = 0; world < num_worlds; ++world) {
    const std::vector<double> p = simulate_adjusted_p(arm_log_ratios, power_case.num_rounds,
                                                      world_seed(seed, world), log_ratios_by_arm);
    const double found = estimate_log_ratio(log_ratios_by_arm.front()).mean_log_ratio;
    if (p.front() <= kAlpha && std::signbit(found) == std::signbit(effect)) ++num_found;
  }
  return static_cast<double>(num_found) / num_worlds;
}

std::vector<SelfTestRow> run_statistics_self_test(std::uint64_t seed) {
  constexpr int kNumWorlds = 1000;
  // More worlds for the tightest bound: the true value is 0.05, and 0.06 is then 2.9 standard
  // errors of the simulation away.
  constexpr int kNumErrorWorlds = 4000;
  std::vector<SelfTestRow> rows;
  rows.push_back({.claim = "A/A: raw p <= 0.05 in 2000 comparisons of 10 rounds",
                  .simulated = static_cast<double>(count_aa_rejections(2000, 10, seed)),
                  .bound = 118,
                  .is_upper_bound = true});
  rows.push_back({.claim = "family-wise error of 10 comparisons of 10 rounds",
                  .simulated = simulate_family_wise_error_ratio(10, 10, kNumErrorWorlds, seed),
                  .bound = 0.06,
                  .is_upper_bound = true});
  struct Power {
    PowerCase power_case;
    double bound;
  };
  constexpr Power kPowers[] = {
      {{.num_comparisons = 1, .num_rounds = 10, .effect_ratio = 1.01}, 0.95},
      {{.num_comparisons = 1, .num_rounds = 10, .effect_ratio = 1.005}, 0.75},
      {{.num_comparisons = 10, .num_rounds = 10, .effect_ratio = 1.01}, 0.95},
      {{.num_comparisons = 10, .num_rounds = 12, .effect_ratio = 1.005}, 0.50},
      {{.num_comparisons = 10, .num_rounds = 14, .effect_ratio = 1.005}, 0.70},
  };
  for (const Power& power : kPowers) {
    rows.push_back({.claim = fmt::format("power to find {:+.1f} % in {} comparison{} of {} rounds",
                                         100 * (power.power_case.effect_ratio - 1),
                                         power.power_case.num_comparisons,
                                         power.power_case.num_comparisons == 1 ? "" : "s",
                                         power.power_case.num_rounds),
                    .simulated = simulate_power_ratio(power.power_case, kNumWorlds, seed),
                    .bound = power.bound});
  }
  return rows;
}

}  // namespace steplens
