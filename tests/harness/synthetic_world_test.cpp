#include "harness/synthetic_world.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "harness/statistics.h"

namespace steplens {
namespace {

// Every seed is fixed: a test that passes once passes always.
constexpr std::uint64_t kSeed = 2024;

const SyntheticNoise silence = {.step_standard_deviation = 0,
                                .block_standard_deviation = 0,
                                .drift_log_ratio = 0,
                                .sine_log_ratio = 0};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// ---- The world is the one that its header describes. ----

TEST(SimulateRun, RunsEveryArmOnceARoundInTheDrawnOrder) {
  const std::vector<double> arms(4, 0.0);
  const auto blocks = simulate_run(arms, 6, kSeed);
  ASSERT_EQ(blocks.size(), 24U);
  for (int round = 0; round < 6; ++round) {
    std::vector<int> order;
    for (std::size_t i = 0; i < 4; ++i) {
      const SyntheticBlock& block = blocks[static_cast<std::size_t>(round) * 4 + i];
      EXPECT_EQ(block.round_index, round);
      EXPECT_EQ(block.step_log_times.size(), 50U);
      order.push_back(block.arm_index);
    }
    EXPECT_EQ(order, draw_round_order(kSeed, round, 4));
  }
}

TEST(SimulateRun, RepeatsWithItsSeedOnly) {
  const std::vector<double> arms(2, 0.0);
  const auto first = simulate_log_rates(arms, 3, 1);
  EXPECT_EQ(first, simulate_log_rates(arms, 3, 1));
  EXPECT_NE(first, simulate_log_rates(arms, 3, 2));
}

TEST(SimulateLogRates, GivesTheTrueEffectsWithoutNoise) {
  const std::vector<double> arms = {0.0, std::log(1.01), -0.2};
  const auto log_rates = simulate_log_rates(arms, 2, kSeed, silence);
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    for (const double log_rate : log_rates[arm]) EXPECT_NEAR(log_rate, arms[arm], 1e-14);
  }
}

TEST(SimulateRun, HasCorrelatedStepsOfTheStatedSpread) {
  SyntheticNoise noise = silence;
  noise.step_standard_deviation = 0.004;
  const auto blocks = simulate_run(std::vector<double>{0.0}, 2000, kSeed, noise);
  double squares = 0;
  double products = 0;
  double first_squares = 0;
  for (const SyntheticBlock& block : blocks) {
    const std::vector<double>& x = block.step_log_times;
    first_squares += x[0] * x[0];
    for (std::size_t i = 1; i < x.size(); ++i) {
      squares += x[i] * x[i];
      products += x[i] * x[i - 1];
    }
  }
  const double num_steps = 2000.0 * 49;
  EXPECT_NEAR(std::sqrt(squares / num_steps), 0.004, 0.00004);
  EXPECT_NEAR(products / squares, 0.6, 0.01);
  EXPECT_NEAR(std::sqrt(first_squares / 2000), 0.004, 0.0003);  // Stationary from its first step.
}

TEST(SimulateLogRates, HasBlockNoiseOfTheStatedSpread) {
  SyntheticNoise noise = silence;
  noise.block_standard_deviation = 0.003;
  const auto log_rates = simulate_log_rates(std::vector<double>{0.0}, 5000, kSeed, noise);
  EXPECT_NEAR(sample_standard_deviation(log_rates[0]), 0.003, 0.00012);  // Four standard errors.
}

TEST(SimulateRun, DriftsByTheStatedAmountOverTheRun) {
  SyntheticNoise noise = silence;
  noise.drift_log_ratio = 0.008;
  std::vector<double> drifts;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto blocks = simulate_run(std::vector<double>{0.0, 0.0}, 5, seed, noise);
    const double first = blocks.front().step_log_times.front();
    const double last = blocks.back().step_log_times.back();
    drifts.push_back((last - first) * 500 / 499);  // From step 0 to the end of the last.
    // A straight line: the middle step is half way.
    EXPECT_NEAR(blocks[5].step_log_times.front(), first + 0.5 * drifts.back(), 1e-12);
  }
  EXPECT_NEAR(mean_of(drifts), 0.008, 0.0005);
  EXPECT_GE(*std::ranges::min_element(drifts), 0.004);
  EXPECT_LE(*std::ranges::max_element(drifts), 0.012);
  EXPECT_LT(*std::ranges::min_element(drifts), 0.0045);
  EXPECT_GT(*std::ranges::max_element(drifts), 0.0115);
}

TEST(SimulateRun, SwingsWithTheStatedAmplitudeAndPeriods) {
  SyntheticNoise noise = silence;
  noise.sine_log_ratio = 0.003;
  std::set<int> crossing_counts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<double> all;
    for (const auto& block : simulate_run(std::vector<double>{0.0}, 20, seed, noise)) {
      all.insert(all.end(), block.step_log_times.begin(), block.step_log_times.end());
    }
    EXPECT_NEAR(*std::ranges::max_element(all), 0.003, 1e-6);
    EXPECT_NEAR(*std::ranges::min_element(all), -0.003, 1e-6);
    int num_crossings = 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
      if ((all[i] > 0) != (all[i - 1] > 0)) ++num_crossings;
    }
    crossing_counts.insert(num_crossings);
  }
  // Two crossings a period: 2 / 0.55 = 3.6 to 2 / 0.15 = 13.3 in a run.
  EXPECT_GE(*crossing_counts.begin(), 3);
  EXPECT_LE(*crossing_counts.begin(), 4);
  EXPECT_GE(*crossing_counts.rbegin(), 12);
  EXPECT_LE(*crossing_counts.rbegin(), 14);
}

// ---- What the statistics promise in it. ----

TEST(AaComparisons, RejectAboutFivePercent) {
  const int num_rejections = count_aa_rejections(2000, 10, kSeed);
  EXPECT_LE(num_rejections, 118);
  EXPECT_GE(num_rejections, 66);  // The mirror image: a test that never rejects is no test.
}

TEST(AaComparisons, AreCalledRealFarTooOftenWhenStepsArePooled) {
  // Why the block is the unit of evidence: |t| of all 500 steps of an arm against the other's.
  int num_rejections = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<double> sums(2, 0.0);
    std::vector<double> squares(2, 0.0);
    for (const auto& block : simulate_run(std::vector<double>{0.0, 0.0}, 10, seed)) {
      for (const double x : block.step_log_times) {
        sums[static_cast<std::size_t>(block.arm_index)] += x;
        squares[static_cast<std::size_t>(block.arm_index)] += x * x;
      }
    }
    const double variance = (squares[0] - sums[0] * sums[0] / 500) / 499 / 500 +
                            (squares[1] - sums[1] * sums[1] / 500) / 499 / 500;
    if (std::abs(sums[0] - sums[1]) / 500 / std::sqrt(variance) > 1.96) ++num_rejections;
  }
  // 64 % by another simulation; three standard errors of 200 worlds are 10 points.
  EXPECT_NEAR(num_rejections / 200.0, 0.64, 0.12);
}

TEST(AaRuns, PassTheAcceptanceNumbersOfACorrectTool) {
  for (const int num_comparisons : {20, 40}) {
    int num_passed = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      if (count_aa_run_rejections(num_comparisons, 7, seed) <= max_aa_rejections(num_comparisons)) {
        ++num_passed;
      }
    }
    // 97 to 98 % are expected, and three standard errors are 2.5 points.
    EXPECT_GE(num_passed, 380) << num_comparisons;
  }
}

TEST(FamilyWiseError, OfTenComparisonsIsHeld) {
  const double error_ratio = simulate_family_wise_error_ratio(10, 10, 2000, kSeed);
  EXPECT_LE(error_ratio, 0.06);
  EXPECT_GE(error_ratio, 0.03);  // Not held by never rejecting.
}

TEST(FamilyWiseError, OfRawPValuesWouldNotBeHeld) {
  // The same worlds without the adjustment: the reason for it.
  int num_errors = 0;
  const std::vector<double> arms(11, 0.0);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto log_rates = simulate_log_rates(arms, 10, seed);
    bool is_error = false;
    for (std::size_t arm = 1; arm < log_rates.size(); ++arm) {
      is_error |= sign_flip_p(log_ratios_of(log_rates[arm], log_rates[0]), 0) <= 0.05;
    }
    num_errors += is_error ? 1 : 0;
  }
  EXPECT_GE(num_errors, 60);
}

TEST(Power, OfOneComparisonFindsOnePercentInTenRounds) {
  EXPECT_GE(simulate_power_ratio({1, 10, 1.01}, 2000, kSeed), 0.95);
}

TEST(Power, OfOneComparisonFindsHalfAPercentInTenRounds) {
  EXPECT_GE(simulate_power_ratio({1, 10, 1.005}, 2000, kSeed), 0.75);
}

TEST(Power, OfTenComparisonsFindsOnePercentInTenRounds) {
  EXPECT_GE(simulate_power_ratio({10, 10, 1.01}, 2000, kSeed), 0.95);
}

TEST(Power, OfTenComparisonsFindsHalfAPercentInTwelveRounds) {
  EXPECT_GE(simulate_power_ratio({10, 12, 1.005}, 2000, kSeed), 0.50);
}

TEST(Power, OfTenComparisonsFindsHalfAPercentInFourteenRounds) {
  EXPECT_GE(simulate_power_ratio({10, 14, 1.005}, 2000, kSeed), 0.70);
}

TEST(Power, FindsASlowdownAsWell) {
  EXPECT_GE(simulate_power_ratio({1, 10, 1 / 1.01}, 500, kSeed), 0.95);
}

TEST(Power, WithoutAnEffectIsHalfTheErrorOfBothSides) {
  // The right sign of "no effect" is positive: one side's 2.5 %, four standard errors wide.
  EXPECT_NEAR(simulate_power_ratio({1, 10, 1.0}, 2000, kSeed), 0.025, 0.014);
}

TEST(MinimumDetectableEffect, IsFoundInAboutFourWorldsOfFive) {
  // One comparison of 10 rounds: the pair's spread from many worlds, then the power at the
  // formula's effect.
  const std::vector<double> arms(2, 0.0);
  std::vector<double> variances;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto log_rates = simulate_log_rates(arms, 10, seed);
    const double s = sample_standard_deviation(log_ratios_of(log_rates[1], log_rates[0]));
    variances.push_back(s * s);
  }
  const double effect =
      minimum_detectable_log_ratio(std::sqrt(mean_of(variances)), 10, 1).value_or(0);
  EXPECT_NEAR(simulate_power_ratio({1, 10, std::exp(effect)}, 2000, kSeed), 0.80, 0.05);
}

TEST(Drift, IsSeenInAWorldThatDriftsAndNotInOneThatDoesNot) {
  // 12 rounds of 3 arms; a drift of 2 % a round against a block noise of about 0.3 %.
  SyntheticNoise drifting;
  drifting.drift_log_ratio = 0.24;
  const std::vector<double> arms(3, 0.0);
  for (const bool is_drifting : {true, false}) {
    int num_seen = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const auto log_rates =
          simulate_log_rates(arms, 12, seed, is_drifting ? drifting : SyntheticNoise{});
      std::vector<double> round_means(12, 0.0);
      for (const auto& arm : log_rates) {
        for (std::size_t round = 0; round < 12; ++round) round_means[round] -= arm[round] / 3;
      }
      if (has_drift(round_means, pooled_block_standard_deviation(log_rates))) ++num_seen;
    }
    if (is_drifting) {
      EXPECT_GE(num_seen, 90);
    } else {
      EXPECT_LE(num_seen, 2);
    }
  }
}

TEST(StatisticsSelfTest, MeetsAllItsClaims) {
  const std::vector<SelfTestRow> rows = run_statistics_self_test();
  EXPECT_EQ(rows.size(), 7U);
  std::set<std::string> claims;
  for (const SelfTestRow& row : rows) {
    EXPECT_TRUE(row.is_met()) << row.claim << ": " << row.simulated;
    EXPECT_TRUE(claims.insert(row.claim).second) << row.claim;
  }
}

TEST(SelfTestRow, IsMetUpToItsBound) {
  EXPECT_TRUE((SelfTestRow{.simulated = 0.06, .bound = 0.06, .is_upper_bound = true}).is_met());
  EXPECT_FALSE((SelfTestRow{.simulated = 0.061, .bound = 0.06, .is_upper_bound = true}).is_met());
  EXPECT_TRUE((SelfTestRow{.simulated = 0.95, .bound = 0.95}).is_met());
  EXPECT_FALSE((SelfTestRow{.simulated = 0.949, .bound = 0.95}).is_met());
}

}  // namespace
}  // namespace steplens
