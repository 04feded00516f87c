#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace steplens {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using ArmRounds = std::vector<std::vector<double>>;

// Eight rounds with a clear but not certain gain; used wherever one comparison is enough.
const std::vector<double> one_arm = {0.012, -0.004, 0.009, 0.015, 0.003, 0.007, -0.001, 0.011};
// Seven rounds of three arms: a weak, no and a strong effect.
const ArmRounds three_arms = {{0.012, -0.004, 0.009, 0.015, 0.003, 0.007, -0.001},
                              {0.002, 0.003, -0.006, 0.004, 0.001, -0.002, 0.005},
                              {0.008, 0.009, 0.006, 0.011, 0.007, 0.010, 0.009}};

ArmRounds random_arms(int num_arms, int num_rounds, std::uint64_t seed) {
  SplitMix64 random(seed);
  ArmRounds arms(static_cast<std::size_t>(num_arms),
                 std::vector<double>(static_cast<std::size_t>(num_rounds)));
  // Every other arm gets an effect and a larger scale, so that p values of all sizes occur.
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    for (double& value : arms[arm]) {
      value = 0.01 * static_cast<double>(1 + arm) * (random.normal() + (arm % 2 == 0 ? 0.8 : 0.0));
    }
  }
  return arms;
}

/// |t| as the textbook has it; infinite without spread.
double absolute_t(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::abs(mean) / std::sqrt(squares / (n - 1) / n);
}

/// Step-down max-T by its definition: every one of the 2^n patterns, t recomputed from scratch, and
/// for each arm the family of all arms whose observed |t| is not larger.
std::vector<double> naive_step_down_max_t(const ArmRounds& arms) {
  const std::size_t num_rounds = arms.front().size();
  std::vector<double> observed;
  for (const auto& arm : arms) observed.push_back(absolute_t(arm));
  std::vector<double> p(arms.size(), 0.0);
  const std::size_t num_patterns = std::size_t{1} << num_rounds;
  for (std::size_t pattern = 0; pattern < num_patterns; ++pattern) {
    std::vector<double> flipped_t;
    for (std::vector<double> flipped : arms) {
      for (std::size_t round = 0; round < num_rounds; ++round) {
        if (((pattern >> round) & 1U) != 0) flipped[round] = -flipped[round];
      }
      flipped_t.push_back(absolute_t(flipped));
    }
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      double largest = 0;
      for (std::size_t other = 0; other < arms.size(); ++other) {
        if (observed[other] <= observed[arm]) largest = std::max(largest, flipped_t[other]);
      }
      if (largest >= observed[arm] * (1 - 1e-12)) p[arm] += 1.0 / static_cast<double>(num_patterns);
    }
  }
  std::vector<double> monotone = p;
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    for (std::size_t other = 0; other < arms.size(); ++other) {
      if (observed[other] >= observed[arm]) monotone[arm] = std::max(monotone[arm], p[other]);
    }
  }
  return monotone;
}

double naive_sign_flip_p(const std::vector<double>& values) {
  const double observed = std::abs(std::accumulate(values.begin(), values.end(), 0.0));
  const std::size_t num_patterns = std::size_t{1} << values.size();
  double num_reaching = 0;
  for (std::size_t pattern = 0; pattern < num_patterns; ++pattern) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += ((pattern >> i) & 1U) != 0 ? -values[i] : values[i];
    }
    if (std::abs(sum) >= observed * (1 - 1e-12)) ++num_reaching;
  }
  return num_reaching / static_cast<double>(num_patterns);
}

// ---- Random numbers ----

TEST(SplitMix64Next, GivesThePublishedSequence) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317U);
  EXPECT_EQ(random.next(), 3203168211198807973U);
  EXPECT_EQ(random.next(), 9817491932198370423U);
  EXPECT_EQ(random.next(), 4593380528125082431U);
  EXPECT_EQ(random.next(), 16408922859458223821U);
}

TEST(SplitMix64Below, IsUniformForBoundsThatDoNotDivideTheRange) {
  // Three quarters of the range: a plain remainder falls into the first third half of the time.
  constexpr std::uint64_t kThird = std::uint64_t{1} << 62U;
  SplitMix64 random(5);
  std::vector<int> counts(3, 0);
  for (int i = 0; i < 30'000; ++i)
    ++counts[static_cast<std::size_t>(random.below(3 * kThird) / kThird)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 330);  // Four standard errors.
}

TEST(SplitMix64Normal, HasTheMomentsOfAStandardNormal) {
  SplitMix64 random(3);
  constexpr int kNumDraws = 200'000;
  double sum = 0;
  double squares = 0;
  double fourth_powers = 0;
  for (int i = 0; i < kNumDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    fourth_powers += x * x * x * x;
  }
  // Five standard errors: 1, sqrt(2) and sqrt(96) over sqrt(200,000).
  EXPECT_NEAR(sum / kNumDraws, 0, 0.0112);
  EXPECT_NEAR(squares / kNumDraws, 1, 0.0159);
  EXPECT_NEAR(fourth_powers / kNumDraws, 3, 0.11);
}

TEST(DrawRoundOrder, GivesTheSameOrdersOnEveryPlatform) {
  // From a second implementation of SplitMix64 and Fisher-Yates, in Python.
  EXPECT_EQ(draw_round_order(42, 0, 5), (std::vector<int>{0, 3, 1, 2, 4}));
  EXPECT_EQ(draw_round_order(42, 1, 5), (std::vector<int>{3, 0, 4, 1, 2}));
  EXPECT_EQ(draw_round_order(42, 2, 5), (std::vector<int>{0, 4, 3, 2, 1}));
  EXPECT_EQ(draw_round_order(42, 3, 5), (std::vector<int>{1, 3, 2, 4, 0}));
  EXPECT_EQ(draw_round_order(std::numeric_limits<std::uint64_t>::max(), 11, 11),
            (std::vector<int>{7, 1, 2, 4, 10, 6, 5, 9, 8, 3, 0}));
}

TEST(DrawRoundOrder, DrawsAllOrdersEquallyOften) {
  constexpr int kNumRounds = 24'000;
  std::map<std::vector<int>, int> counts;
  for (int round = 0; round < kNumRounds; ++round) ++counts[draw_round_order(7, round, 4)];
  ASSERT_EQ(counts.size(), 24U);
  double chi_square = 0;
  for (const auto& [order, count] : counts)
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi_square, 49.73);  // 99.9 % quantile with 23 degrees of freedom.
}

TEST(DrawRoundOrder, DrawsEachRoundIndependentlyOfTheOneBefore) {
  constexpr int kNumRounds = 36'000;
  std::map<std::pair<std::vector<int>, std::vector<int>>, int> counts;
  for (int round = 0; round < kNumRounds; ++round) {
    ++counts[{draw_round_order(9, round, 3), draw_round_order(9, round + 1, 3)}];
  }
  ASSERT_EQ(counts.size(), 36U);
  double chi_square = 0;
  for (const auto& [orders, count] : counts) {
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  }
  EXPECT_LT(chi_square, 66.62);  // 99.9 % quantile with 35 degrees of freedom.
}

TEST(DrawRoundOrder, DependsOnTheSeed) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) orders.insert(draw_round_order(seed, 0, 10));
  EXPECT_EQ(orders.size(), 50U);
}

TEST(DrawRoundOrder, OfOneArmIsThatArm) {
  EXPECT_EQ(draw_round_order(1, 0, 1), std::vector<int>{0});
}

// ---- Student's t ----

TEST(StudentTQuantile, AgreesWithScipy) {
  struct Row {
    double probability, degrees_of_freedom, t;
  };
  // scipy.stats.t.ppf of SciPy 1.17.
  constexpr Row kRows[] = {
      {0.975, 1, 12.70620473617469},   {0.975, 2, 4.302652729749462},
      {0.975, 5, 2.570581835636315},   {0.975, 9, 2.262157162798205},
      {0.975, 11, 2.200985160091639},  {0.98, 11, 2.328139833481463},
      {0.9975, 11, 3.496614173253684}, {0.9995, 3, 12.92397863668796},
      {0.8, 7, 0.8960296443137653},    {0.75, 2.5, 0.7850136829922992},
      {0.6, 30, 0.2556053649519128},   {0.999999, 4, 41.5778541501515},
      {0.975, 199, 1.971956544251753}, {0.975, 1000, 1.962339080826408},
      {0.975, 1e6, 1.959966356814107}, {1e-10, 6, -83.40943278020821},
      {0.025, 11, -2.200985160091639}, {0.500001, 9, 2.577087723752215e-06},
      {0.975, 0.5, 164.5576734804882},
  };
  for (const Row& row : kRows) {
    EXPECT_NEAR(student_t_quantile(row.probability, row.degrees_of_freedom), row.t,
                1e-9 * std::max(1.0, std::abs(row.t)))
        << row.probability << ", " << row.degrees_of_freedom;
  }
}

TEST(StudentTQuantile, IsZeroAtOneHalf) { EXPECT_EQ(student_t_quantile(0.5, 3), 0); }

TEST(StudentTQuantile, AgreesWithTheClosedFormsOfOneAndTwoDegrees) {
  for (int i = 0; i < 26; ++i) {
    const double p = 0.02 + 0.0375 * i;
    const double pi = std::numbers::pi;
    EXPECT_NEAR(student_t_quantile(p, 1), std::tan(pi * (p - 0.5)), 1e-9 * 20) << p;
    EXPECT_NEAR(student_t_quantile(p, 2), (2 * p - 1) / std::sqrt(2 * p * (1 - p)), 1e-9 * 7) << p;
  }
}

TEST(StudentTCdf, AgreesWithFortyDigitArithmetic) {
  struct Row {
    double t, degrees_of_freedom, probability;
  };
  // mpmath.betainc at 40 digits.
  constexpr Row kRows[] = {
      {0.5, 1, 0.64758361765043327},          {-2, 3, 0.069662984279421588},
      {2.2621571628, 9, 0.97500000000007332}, {4.5, 11, 0.99954939549506311},
      {-30, 5, 3.859324310248026e-7},         {1e-8, 7, 0.50000000384991451},
      {1.96, 1e5, 0.97500071840284918},       {0.1, 200, 0.53977775374783948},
      {6, 60.5, 0.99999994009030814},         {-1.5, 100, 0.068382529062344428},
      {-1e5, 2, 4.99999999925e-11},
  };
  for (const Row& row : kRows) {
    EXPECT_NEAR(student_t_cdf(row.t, row.degrees_of_freedom), row.probability,
                1e-12 * row.probability)
        << row.t << ", " << row.degrees_of_freedom;
  }
}

TEST(StudentTCdf, IsOneHalfAtZeroAndCertainAtInfinity) {
  EXPECT_EQ(student_t_cdf(0, 4), 0.5);
  EXPECT_EQ(student_t_cdf(kInfinity, 4), 1);
  EXPECT_EQ(student_t_cdf(-kInfinity, 4), 0);
}

TEST(EstimateLogRatio, AgreesWithScipy) {
  // scipy.stats.ttest_1samp(...).confidence_interval.
  const Estimate estimate = estimate_log_ratio(one_arm);
  EXPECT_NEAR(estimate.mean_log_ratio, 0.0065, 1e-15);
  EXPECT_NEAR(estimate.standard_deviation, 0.0066332495807108, 1e-15);
  EXPECT_EQ(estimate.num_rounds, 8);
  EXPECT_NEAR(estimate.low_log_ratio, 0.0009544645721342613, 1e-12);
  EXPECT_NEAR(estimate.high_log_ratio, 0.012045535427865739, 1e-12);
  EXPECT_EQ(estimate.confidence, 0.95);

  const Estimate wider = estimate_log_ratio(one_arm, 0.96);
  EXPECT_NEAR(wider.low_log_ratio, 0.0005976923831357466, 1e-12);
  EXPECT_NEAR(wider.high_log_ratio, 0.012402307616864252, 1e-12);
  EXPECT_EQ(wider.confidence, 0.96);
}

TEST(EstimateLogRatio, OfOneRoundHasAnInfiniteInterval) {
  const Estimate estimate = estimate_log_ratio(std::vector<double>{0.02});
  EXPECT_EQ(estimate.mean_log_ratio, 0.02);
  EXPECT_EQ(estimate.low_log_ratio, -kInfinity);
  EXPECT_EQ(estimate.high_log_ratio, kInfinity);
  EXPECT_TRUE(std::isnan(estimate.standard_deviation));
}

TEST(EstimateLogRatio, OfEqualRoundsHasAnEmptyInterval) {
  const Estimate estimate = estimate_log_ratio(std::vector<double>(6, 0.25));
  EXPECT_EQ(estimate.low_log_ratio, 0.25);
  EXPECT_EQ(estimate.high_log_ratio, 0.25);
}

// ---- Permutation tests ----

TEST(SignFlipP, AgreesWithScipy) {
  // scipy.stats.permutation_test(permutation_type='samples'): 12 of 256 patterns.
  EXPECT_EQ(sign_flip_p(one_arm, 0), 0.046875);
}

TEST(SignFlipP, OfAllRoundsInFavourIsTheSmallestPossible) {
  EXPECT_EQ(sign_flip_p(std::vector<double>{0.01, 0.02, 0.03, 0.01, 0.05, 0.02}, 0), 2.0 / 64);
  EXPECT_EQ(sign_flip_p(std::vector<double>{-0.01, -0.02, -0.03, -0.01, -0.05, -0.02}, 0),
            2.0 / 64);
}

TEST(SignFlipP, CountsTiesThatRoundingSplits) {
  // 0.1 + 0.2 - 0.3 is not 0.3 - 0.2 - 0.1 in doubles; all patterns of these sums are ties with the
  // observed 0, or larger: p is 1.
  EXPECT_EQ(sign_flip_p(std::vector<double>{0.1, 0.2, -0.3}, 0), 1);
  EXPECT_EQ(sign_flip_p(std::vector<double>{0.3, -0.1, -0.2, 0.7, -0.7}, 0), 1);
  // |sum| 0.2: of the 4 patterns up to a global flip, 0.6, 0.4 and the observed 0.2 reach it, 0
  // not.
  EXPECT_EQ(sign_flip_p(std::vector<double>{0.1, -0.2, 0.3}, 0), 0.75);
}

TEST(SignFlipP, IsOneWithoutAnyDifference) {
  EXPECT_EQ(sign_flip_p(std::vector<double>(9, 0.0), 0), 1);
}

TEST(SignFlipP, IsOneForOneRound) { EXPECT_EQ(sign_flip_p(std::vector<double>{0.1}, 0), 1); }

TEST(SignFlipP, DoesNotDependOnTheScale) {
  std::vector<double> tiny = one_arm;
  for (double& value : tiny) value *= 0x1p-700;  // Its squares underflow.
  EXPECT_EQ(sign_flip_p(tiny, 0), 0.046875);
}

TEST(SignFlipP, AgreesWithEnumerationForEveryNumberOfRounds) {
  for (int num_rounds = 1; num_rounds <= 14; ++num_rounds) {
    const auto values = random_arms(1, num_rounds, 100 + static_cast<std::uint64_t>(num_rounds))[0];
    EXPECT_NEAR(sign_flip_p(values, 0), naive_sign_flip_p(values), 1e-14) << num_rounds;
  }
}

TEST(SignFlipP, IsExactUpToTwentyRoundsAndSampledBeyond) {
  EXPECT_EQ(sign_flip_p(std::vector<double>(20, 0.01), 5), 0x1p-19);
  // The true p of 21 equal rounds is 2^-20: hardly a draw hits it, and the observed pattern counts.
  const double p = sign_flip_p(std::vector<double>(21, 0.01), 5);
  EXPECT_GE(p, 1e-5);
  EXPECT_LE(p, 3e-5);
}

TEST(SignFlipP, SampledStaysWithinItsErrorOfTheExactOne) {
  // 21 rounds are one too many for the program and few enough to enumerate here.
  std::vector<double> values = random_arms(1, 21, 12)[0];
  for (double& value : values) value -= 0.004;
  const double exact = naive_sign_flip_p(values);
  ASSERT_GT(exact, 0.01);
  ASSERT_LT(exact, 0.5);
  const double standard_error = std::sqrt(exact * (1 - exact) / kNumSampledPatterns);
  EXPECT_NEAR(sign_flip_p(values, 77), exact, 4 * standard_error);
  EXPECT_NE(sign_flip_p(values, 77), exact);
}

TEST(SignFlipP, SampledRepeatsWithItsSeedOnly) {
  const std::vector<double> values = random_arms(1, 80, 13)[0];
  std::set<double> different;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const std::vector<double> weaker(values.begin(), values.begin() + 30);
    EXPECT_EQ(sign_flip_p(weaker, seed), sign_flip_p(weaker, seed));
    different.insert(sign_flip_p(std::vector<double>(weaker.begin(), weaker.begin() + 22), seed));
  }
  EXPECT_GT(different.size(), 1U);
}

TEST(SignFlipP, SampledFlipsEveryOneOfManyRounds) {
  // Only the last of 100 rounds differs from 0: each pattern reaches its |sum|.
  std::vector<double> values(100, 0.0);
  values.back() = 1;
  EXPECT_EQ(sign_flip_p(values, 3), 1);
  // Rounds 64 and 65, beyond the first word of random bits: equal signs, half of the patterns.
  values.back() = 0;
  values[64] = 1;
  values[65] = 1;
  EXPECT_NEAR(sign_flip_p(values, 3), 0.5, 4 * 0.5 / std::sqrt(1.0 * kNumSampledPatterns));
  // One round of each word: were the words equal, all patterns would reach the sum.
  values[65] = 0;
  values[0] = 1;
  EXPECT_NEAR(sign_flip_p(values, 3), 0.5, 4 * 0.5 / std::sqrt(1.0 * kNumSampledPatterns));
}

TEST(StepDownMaxT, AgreesWithAWorkedExample) {
  // All 128 patterns walked in Python with scipy.stats.ttest_1samp: |t| = 2.249, 0.691, 13.198.
  const std::vector<double> p = step_down_max_t(three_arms, 0);
  ASSERT_EQ(p.size(), 3U);
  EXPECT_EQ(p[0], 0.15625);
  EXPECT_EQ(p[1], 0.5625);
  EXPECT_EQ(p[2], 0.015625);
}

TEST(StepDownMaxT, AgreesWithItsDefinition) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const int num_rounds : {2, 3, 6, 9}) {
      const ArmRounds arms = random_arms(6, num_rounds, seed);
      const std::vector<double> expected = naive_step_down_max_t(arms);
      const std::vector<double> p = step_down_max_t(arms, 0);
      ASSERT_EQ(p.size(), expected.size());
      for (std::size_t arm = 0; arm < p.size(); ++arm) {
        EXPECT_NEAR(p[arm], expected[arm], 1e-12) << "seed " << seed << ", arm " << arm;
      }
    }
  }
}

TEST(StepDownMaxT, OfOneArmIsTheRawP) {
  for (const int num_rounds : {6, 12, 20, 30}) {
    const ArmRounds arms = random_arms(1, num_rounds, 21);
    EXPECT_EQ(step_down_max_t(arms, 4), std::vector<double>{sign_flip_p(arms[0], 4)}) << num_rounds;
  }
}

TEST(StepDownMaxT, NeverFallsBelowTheRawP) {
  for (const int num_rounds : {8, 25}) {
    const ArmRounds arms = random_arms(7, num_rounds, 31);
    const std::vector<double> p = step_down_max_t(arms, 5);
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      EXPECT_GE(p[arm], sign_flip_p(arms[arm], 5)) << arm;
    }
  }
}

TEST(StepDownMaxT, GivesASmallerPToALargerT) {
  const ArmRounds arms = random_arms(9, 10, 41);
  const std::vector<double> p = step_down_max_t(arms, 0);
  for (std::size_t a = 0; a < arms.size(); ++a) {
    for (std::size_t b = 0; b < arms.size(); ++b) {
      if (absolute_t(arms[a]) > absolute_t(arms[b])) {
        EXPECT_LE(p[a], p[b]);
      }
    }
  }
}

TEST(StepDownMaxT, DoesNotPunishCopiesOfAnArm) {
  // Whole rounds are flipped: ten equal arms are one arm. Bonferroni would multiply by ten.
  const ArmRounds copies(10, one_arm);
  EXPECT_EQ(step_down_max_t(copies, 0), std::vector<double>(10, 0.046875));
}

TEST(StepDownMaxT, IsIndifferentToScaleSignAndOrderOfArms) {
  ArmRounds changed = {three_arms[2], three_arms[0], three_arms[1]};
  for (double& value : changed[0]) value *= -8;
  for (double& value : changed[2]) value *= 0.125;
  EXPECT_EQ(step_down_max_t(changed, 0), (std::vector<double>{0.015625, 0.15625, 0.5625}));
}

TEST(StepDownMaxT, TreatsRoundsWithoutSpreadAsTheStrongestEvidence) {
  // |t| is infinite, and the two patterns of 2^8 that keep all signs equal reach it.
  const ArmRounds arms = {one_arm, std::vector<double>(8, 0.02), std::vector<double>(8, 0.0)};
  const std::vector<double> p = step_down_max_t(arms, 0);
  EXPECT_EQ(p[1], 2.0 / 256);
  EXPECT_EQ(p[0], 0.046875);  // An arm that is all zeros adds nothing to the family.
  EXPECT_EQ(p[2], 1);
}

TEST(StepDownMaxT, FindsWhatHolmCannot) {
  // 7 rounds, 10 arms, one of them clear. The smallest raw p, 1/64, times 10 is above 0.05.
  ArmRounds arms = random_arms(10, 7, 51);
  for (std::size_t arm = 1; arm < arms.size(); ++arm) {
    for (std::size_t round = 0; round < 7; ++round) {
      arms[arm][round] = round % 2 == 0 ? 0.01 : -0.01 * static_cast<double>(arm);
    }
  }
  arms[0] = {0.010, 0.011, 0.012, 0.010, 0.011, 0.009, 0.010};
  ASSERT_GT(10 * sign_flip_p(arms[0], 0), 0.05);
  EXPECT_LE(step_down_max_t(arms, 0)[0], 0.05);
}

TEST(StepDownMaxT, OfNoArmsIsEmpty) { EXPECT_TRUE(step_down_max_t({}, 0).empty()); }

TEST(StepDownMaxTDeathTest, RefusesArmsWithDifferentRounds) {
  EXPECT_DEATH(step_down_max_t({{0.1, 0.2}, {0.1}}, 0), "check failed");
  EXPECT_DEATH(step_down_max_t({{0.1, std::nan("")}}, 0), "check failed");
}

// ---- Verdicts ----

Estimate interval(double low_log_ratio, double high_log_ratio, int num_rounds = 12) {
  return {.mean_log_ratio = (low_log_ratio + high_log_ratio) / 2,
          .standard_deviation = 0.01,
          .num_rounds = num_rounds,
          .low_log_ratio = low_log_ratio,
          .high_log_ratio = high_log_ratio,
          .confidence = 0.95};
}

TEST(Decide, TakesTheSignWhenPIsSmall) {
  EXPECT_EQ(decide(interval(0.02, 0.04), 0.05, {}), Verdict::kFaster);
  EXPECT_EQ(decide(interval(-0.04, -0.02), 0.001, {}), Verdict::kSlower);
}

TEST(Decide, PutsSignificanceBeforeEquivalence) {
  EXPECT_EQ(decide(interval(0.001, 0.003), 0.01, {}), Verdict::kFaster);
  EXPECT_EQ(decide(interval(-0.003, -0.001), 0.01, {}), Verdict::kSlower);
}

TEST(Decide, CallsEquivalentOnlyAnIntervalInsideTheBounds) {
  // ln 1.01 = 0.00995033.
  EXPECT_EQ(decide(interval(-0.0099, 0.0099), 0.5, {}), Verdict::kEquivalent);
  EXPECT_EQ(decide(interval(-0.0099, 0.00996), 0.5, {}), Verdict::kInconclusive);
  EXPECT_EQ(decide(interval(-0.00996, 0.0099), 0.5, {}), Verdict::kInconclusive);
  EXPECT_EQ(decide(interval(-0.00996, 0.0099), 0.5, {.equivalence_ratio = 1.02}),
            Verdict::kEquivalent);
}

TEST(Decide, NeedsAPThatReachesAlphaExactly) {
  EXPECT_EQ(decide(interval(0.002, 0.04), 500.0 / 10'000, {}), Verdict::kFaster);
  EXPECT_EQ(decide(interval(0.002, 0.04), 501.0 / 10'000, {}), Verdict::kInconclusive);
}

TEST(Decide, GivesNoVerdictBelowSixRounds) {
  EXPECT_EQ(decide(interval(0.02, 0.04, 5), 0.001, {}), Verdict::kNotEnoughRounds);
  EXPECT_EQ(decide(interval(0.02, 0.04, 6), 0.001, {}), Verdict::kFaster);
  EXPECT_EQ(decide(interval(-0.001, 0.001, 5), 0.9, {}), Verdict::kNotEnoughRounds);
}

TEST(Decide, IsStricterAfterStoppingOnPrecision) {
  Estimate estimate = interval(0.002, 0.04);
  estimate.confidence = 0.96;
  EXPECT_EQ(decide(estimate, 0.045, kUntilHalfwidthRule), Verdict::kInconclusive);
  EXPECT_EQ(decide(estimate, 0.040, kUntilHalfwidthRule), Verdict::kFaster);
}

TEST(DecideDeathTest, RefusesAnIntervalOfAnotherConfidence) {
  EXPECT_DEATH(decide(interval(0.02, 0.04), 0.01, kUntilHalfwidthRule), "check failed");
}

TEST(IsWithinOnePercent, LooksAtTheWholeInterval) {
  EXPECT_TRUE(is_within_one_percent(interval(0.001, 0.009), {}));
  EXPECT_FALSE(is_within_one_percent(interval(0.001, 0.011), {}));
  EXPECT_FALSE(is_within_one_percent(interval(-0.011, -0.001), {}));
  EXPECT_FALSE(is_within_one_percent(interval(-kInfinity, kInfinity, 1), {}));
}

TEST(VerdictName, IsTheWordOfTheResultsFile) {
  EXPECT_EQ(verdict_name(Verdict::kFaster), "FASTER");
  EXPECT_EQ(verdict_name(Verdict::kSlower), "SLOWER");
  EXPECT_EQ(verdict_name(Verdict::kEquivalent), "EQUIVALENT");
  EXPECT_EQ(verdict_name(Verdict::kInconclusive), "INCONCLUSIVE");
  EXPECT_EQ(verdict_name(Verdict::kNotEnoughRounds), "NOT_ENOUGH_ROUNDS");
  EXPECT_EQ(verdict_name(Verdict::kNoEffect), "NO_EFFECT");
  EXPECT_EQ(verdict_name(Verdict::kMathsDiffers), "MATHS_DIFFERS");
  EXPECT_EQ(verdict_name(Verdict::kFailed), "FAILED");
  EXPECT_EQ(verdict_words(Verdict::kNotEnoughRounds), "NOT ENOUGH ROUNDS");
  EXPECT_EQ(verdict_words(Verdict::kFaster), "FASTER");
}

TEST(HasReachedHalfWidth, NeedsTwelveRoundsAndEveryComparison) {
  const std::vector<Estimate> narrow = {interval(0, 0.004), interval(-0.002, 0.002)};
  EXPECT_TRUE(has_reached_half_width(narrow, 0.0021));
  EXPECT_FALSE(has_reached_half_width(narrow, 0.0019));
  const std::vector<Estimate> one_wide = {interval(0, 0.004), interval(-0.02, 0.02)};
  EXPECT_FALSE(has_reached_half_width(one_wide, 0.0021));
  const std::vector<Estimate> few = {interval(0, 0.004, 11)};
  EXPECT_FALSE(has_reached_half_width(few, 0.0021));
}

TEST(MinimumDetectableLogRatio, AgreesWithScipy) {
  EXPECT_NEAR(minimum_detectable_log_ratio(0.00453, 12, 10).value_or(0), 0.005717445735126413,
              1e-12);
  EXPECT_NEAR(minimum_detectable_log_ratio(0.002, 8, 1).value_or(0), 0.002305630480897856, 1e-12);
}

TEST(MinimumDetectableLogRatio, IsAbsentBelowEightRounds) {
  EXPECT_FALSE(minimum_detectable_log_ratio(0.002, 7, 1).has_value());
}

TEST(MaxAaRejections, AreTheAcceptanceNumbers) {
  EXPECT_EQ(max_aa_rejections(20), 3);
  EXPECT_EQ(max_aa_rejections(40), 5);
  EXPECT_EQ(max_aa_rejections(100), 10);
  EXPECT_EQ(max_aa_rejections(200), 16);
}

TEST(MaxAaRejections, AreBinomialQuantilesForOtherCounts) {
  // scipy.stats.binom.ppf(0.975, n, 0.05).
  const std::map<int, int> expected = {{0, 0},  {1, 1},  {2, 1},    {5, 1},     {7, 2},
                                       {10, 2}, {60, 7}, {500, 35}, {2000, 120}};
  for (const auto& [num_comparisons, num_rejections] : expected) {
    EXPECT_EQ(max_aa_rejections(num_comparisons), num_rejections) << num_comparisons;
  }
}

// ---- Descriptions of samples ----

TEST(Percentile, InterpolatesAsNumpyDoes) {
  const std::vector<double> values = {9, 1, 4, 7, 15, 2, 8};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 0.1), 1.6);
  EXPECT_DOUBLE_EQ(percentile(values, 0.25), 3);
  EXPECT_DOUBLE_EQ(percentile(values, 0.75), 8.5);
  EXPECT_DOUBLE_EQ(percentile(values, 0.9), 11.4);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 15);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddles) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
}

TEST(SampleStandardDeviation, DividesByOneLess) {
  EXPECT_NEAR(sample_standard_deviation(std::vector<double>{9, 1, 4, 7, 15, 2, 8}),
              4.790864322059324, 1e-14);
  EXPECT_TRUE(std::isnan(sample_standard_deviation(std::vector<double>{9})));
}

TEST(SampleStandardDeviation, KeepsItsDigitsOnALargeOffset) {
  EXPECT_NEAR(sample_standard_deviation(std::vector<double>{1e9 + 1, 1e9 + 2, 1e9 + 3}), 1, 1e-12);
}

TEST(CountOutliers, TellsMildFromSevere) {
  const std::vector<double> values = {11, 12, 13, 14, 15, 16, 17, 18, 26, 11};
  // Sorted: 11 11 12 13 14 15 16 17 18 26; quartiles 12.25, 16.75, IQR 4.5: mild from 23.5
  // to 30.25. Median 14.5, deviations 3.5 3.5 2.5 1.5 .5 .5 1.5 2.5 3.5 11.5: MAD 2.5, limit 12.97.
  EXPECT_EQ(count_outliers(values), (OutlierCounts{.num_mild = 1}));
  std::vector<double> severe = values;
  severe[8] = 31;
  EXPECT_EQ(count_outliers(severe), (OutlierCounts{.num_severe = 1, .num_mad = 1}));
  std::vector<double> below = values;
  below[8] =
      -3;  // Sorted: -3 11 11 12 13 14 15 16 17 18; quartiles 11.25, 15.75: severe below -2.25.
  EXPECT_EQ(count_outliers(below), (OutlierCounts{.num_severe = 1, .num_mad = 1}));
}

TEST(CountOutliers, FindsNoneInEqualValues) {
  EXPECT_EQ(count_outliers(std::vector<double>(8, 5.0)), OutlierCounts{});
  EXPECT_EQ(count_outliers({}), OutlierCounts{});
}

TEST(CountOutliers, FindsAStragglerAmongEqualValues) {
  // IQR and MAD are 0. Mean deviation 10 / 20, times 1.2533: the limit is 2.19.
  std::vector<double> values(20, 100.0);
  values[7] = 110;
  EXPECT_EQ(count_outliers(values), (OutlierCounts{.num_severe = 1, .num_mad = 1}));
}

TEST(CountOutliers, ToleratesTheClockTicksOfMostlyEqualValues) {
  // 11 of 20 are equal, so MAD is 0. Mean deviation 0.45, times 1.2533: the limit is 1.97.
  std::vector<double> values(20, 100.0);
  for (std::size_t i = 0; i < 9; ++i) values[i] = 101;
  EXPECT_EQ(count_outliers(values), OutlierCounts{});
}

TEST(PooledBlockStandardDeviation, AgreesWithATwoWayTable) {
  // NumPy: residuals of rows and columns, divided by 2 * 3 degrees of freedom.
  const ArmRounds log_rates = {{0.1, 0.4, 0.3, 0.9}, {0.2, 0.3, 0.5, 0.8}, {0.05, 0.45, 0.2, 1.1}};
  EXPECT_NEAR(pooled_block_standard_deviation(log_rates), 0.1384437310486346, 1e-14);
}

TEST(PooledBlockStandardDeviation, IgnoresEffectsAndDrift) {
  // Arm and round means explain everything.
  const ArmRounds log_rates = {{0.0, 0.5, 0.75}, {0.25, 0.75, 1.0}};
  EXPECT_NEAR(pooled_block_standard_deviation(log_rates), 0, 1e-15);
}

TEST(SuccessiveDifferenceStandardDeviation, AgreesWithNumpy) {
  EXPECT_NEAR(successive_difference_standard_deviation(std::vector<double>{0.1, 0.4, 0.3, 0.9}),
              0.2768874620972692, 1e-14);
}

TEST(HasUnequalNoise, NeedsHalfAsMuchAgain) {
  EXPECT_FALSE(has_unequal_noise(0.0015, 0.001));
  EXPECT_TRUE(has_unequal_noise(0.00151, 0.001));
  EXPECT_FALSE(has_unequal_noise(0.0001, 0.001));
}

TEST(HasDrift, ComparesTheMedianChangeWithTheBlockNoise) {
  // |Changes| 0.2, 0.3, 0.1, 0.2: median 0.2.
  const std::vector<double> round_means = {1.0, 1.2, 0.9, 1.0, 1.2};
  EXPECT_TRUE(has_drift(round_means, 0.13));
  EXPECT_FALSE(has_drift(round_means, 0.14));
}

TEST(HasDrift, IsNotMovedByOneJump) {
  EXPECT_FALSE(has_drift({1.0, 1.0, 1.0, 9.0, 9.0, 9.0}, 0.01));
}

TEST(HasDrift, SeesAFallingDrift) { EXPECT_TRUE(has_drift({1.0, 0.9, 0.8, 0.7}, 0.05)); }

TEST(HasDrift, NeedsTwoRounds) {
  EXPECT_FALSE(has_drift({1.0}, 0.0));
  EXPECT_FALSE(has_drift({}, 0.0));
}

// ---- Warm-up ----

constexpr std::int64_t kStepNs = 100'000'000;

/// Feeds the steps and returns the index of the one at which the detector settled, -1 if never.
int settling_step(WarmupDetector& detector, const std::vector<std::int64_t>& steps_ns,
                  const std::set<int>& event_steps = {}) {
  for (std::size_t i = 0; i < steps_ns.size(); ++i) {
    const int step = static_cast<int>(i);
    if (detector.feed(steps_ns[i], event_steps.contains(step))) return step;
  }
  return -1;
}

/// Steps of kStepNs * (1 + first_ratio), + slope_ratio a step.
std::vector<std::int64_t> ramp(int num_steps, double first_ratio, double slope_ratio) {
  std::vector<std::int64_t> steps_ns(static_cast<std::size_t>(num_steps));
  for (int i = 0; i < num_steps; ++i) {
    steps_ns[static_cast<std::size_t>(i)] =
        std::llround(static_cast<double>(kStepNs) * (1 + first_ratio + slope_ratio * i));
  }
  return steps_ns;
}

/// Steps with a spread of `spread_ratio` and a fixed seed.
std::vector<std::int64_t> noisy_steps(int num_steps, double spread_ratio) {
  SplitMix64 random(17);
  std::vector<std::int64_t> steps_ns(static_cast<std::size_t>(num_steps));
  for (std::int64_t& step_ns : steps_ns) {
    step_ns = std::llround(static_cast<double>(kStepNs) * (1 + spread_ratio * random.normal()));
  }
  return steps_ns;
}

TEST(WarmupDetector, NeedsTwentySteps) {
  WarmupDetector detector;
  EXPECT_EQ(settling_step(detector, std::vector<std::int64_t>(19, kStepNs)), -1);
  EXPECT_FALSE(detector.num_warmup_steps().has_value());
  EXPECT_TRUE(detector.feed(kStepNs, false));
  EXPECT_EQ(detector.num_warmup_steps(), 0);
}

TEST(WarmupDetector, StartsAfterTheLastEvent) {
  WarmupDetector detector;
  // Quiet from step 16 on: ten quiet steps are 16 to 25.
  EXPECT_EQ(settling_step(detector, std::vector<std::int64_t>(60, kStepNs), {0, 1, 15}), 25);
  EXPECT_EQ(detector.num_warmup_steps(), 16);
}

TEST(WarmupDetector, LeavesTheEarlyEventsOfASteadyRunBehind) {
  WarmupDetector detector;
  EXPECT_EQ(settling_step(detector, std::vector<std::int64_t>(60, kStepNs), {0, 1, 2}), 19);
  EXPECT_EQ(detector.num_warmup_steps(), 3);
}

TEST(WarmupDetector, WaitsWhileStepsGetFaster) {
  // 1 % a step for 30 steps, then level.
  std::vector<std::int64_t> steps_ns = ramp(30, 0.30, -0.01);
  steps_ns.resize(80, kStepNs);
  WarmupDetector detector;
  const int settled = settling_step(detector, steps_ns);
  EXPECT_GT(settled, 30);
  EXPECT_LT(settled, 50);
  // At most the tail of the ramp is left: its last step is 1 % above the level.
  EXPECT_GE(detector.num_warmup_steps().value_or(-1), 26);
  EXPECT_LE(detector.num_warmup_steps().value_or(-1), 30);
}

TEST(WarmupDetector, WaitsWhileStepsGetSlower) {
  WarmupDetector detector;
  EXPECT_EQ(settling_step(detector, ramp(100, 0, 0.002)), -1);
}

TEST(WarmupDetector, StartsWhereTheLevelBegins) {
  // From 10 % too fast up to the level in 20 steps; a cold GPU clocks higher.
  std::vector<std::int64_t> steps_ns = ramp(20, -0.10, 0.005);
  steps_ns.resize(80, kStepNs);
  WarmupDetector detector;
  EXPECT_GT(settling_step(detector, steps_ns), 25);
  EXPECT_GE(detector.num_warmup_steps().value_or(-1), 14);
  EXPECT_LE(detector.num_warmup_steps().value_or(-1), 20);
}

TEST(WarmupDetector, CountsASlopeFromTwiceItsStandardErrorOn) {
  // 0.2 % a step under a zigzag of +-z: the residuals' spread is z * sqrt(20 / 18), the indices'
  // sum of squares 665, so the standard error is about 0.0409 z. 1.6 %: 3.1 times; 4 %: 1.2 times.
  const auto zigzag = [](double amplitude) {
    std::vector<std::int64_t> steps_ns = ramp(60, 0, 0.002);
    for (std::size_t i = 0; i < steps_ns.size(); ++i) {
      const double swing = amplitude * static_cast<double>(kStepNs);
      steps_ns[i] += std::llround(i % 2 == 0 ? swing : -swing);
    }
    return steps_ns;
  };
  WarmupDetector certain;
  EXPECT_EQ(settling_step(certain, zigzag(0.016)), -1);
  WarmupDetector uncertain;
  EXPECT_EQ(settling_step(uncertain, zigzag(0.04)), 19);
}

TEST(WarmupDetector, AcceptsASlopeBelowTheLimitHoweverCertain) {
  WarmupDetector detector;
  EXPECT_EQ(settling_step(detector, ramp(20, 0, 0.0008)), 19);
}

TEST(WarmupDetector, DoesNotCountASlopeThatNoiseMakes) {
  // A spread of 8 %: the slope's standard error is 0.3 % a step, so slopes above the limit are the
  // rule, and the detector must still settle at once.
  int num_settled_at_once = 0;
  for (int start = 0; start < 40; ++start) {
    const auto all = noisy_steps(60, 0.08);
    WarmupDetector detector;
    if (settling_step(detector, {all.begin() + start, all.begin() + start + 20}) == 19) {
      ++num_settled_at_once;
    }
  }
  EXPECT_GE(num_settled_at_once, 34);
}

TEST(WarmupDetector, LeavesOutOneSlowFirstStep) {
  std::vector<std::int64_t> steps_ns = noisy_steps(40, 0.002);
  steps_ns[0] = 20 * kStepNs;
  WarmupDetector detector;
  EXPECT_EQ(settling_step(detector, steps_ns), 19);
  EXPECT_EQ(detector.num_warmup_steps(), 1);
}

TEST(WarmupDetector, KeepsASlowStepInTheMiddle) {
  std::vector<std::int64_t> steps_ns = noisy_steps(40, 0.002);
  steps_ns[10] = 3 * kStepNs;
  WarmupDetector detector;
  EXPECT_EQ(settling_step(detector, steps_ns), 19);
  EXPECT_EQ(detector.num_warmup_steps(), 0);
}

TEST(WarmupDetector, StaysSettled) {
  WarmupDetector detector;
  settling_step(detector, std::vector<std::int64_t>(20, kStepNs));
  EXPECT_TRUE(detector.feed(50 * kStepNs, true));
  EXPECT_EQ(detector.num_warmup_steps(), 0);
  EXPECT_EQ(detector.num_steps(), 20);
}

TEST(WarmupDetector, GivesUpAfterTwoHundredStepsOrSixtySeconds) {
  WarmupDetector many_steps;
  for (int i = 0; i < 199; ++i) many_steps.feed(kStepNs, true);
  EXPECT_FALSE(many_steps.has_given_up());
  many_steps.feed(kStepNs, true);
  EXPECT_TRUE(many_steps.has_given_up());

  WarmupDetector slow_steps;
  for (int i = 0; i < 5; ++i) slow_steps.feed(11'999'999'999, true);
  EXPECT_FALSE(slow_steps.has_given_up());
  slow_steps.feed(5, true);
  EXPECT_TRUE(slow_steps.has_given_up());
}

TEST(WarmupDetector, DoesNotGiveUpOnceSettled) {
  WarmupDetector detector;
  for (int i = 0; i < 20; ++i) detector.feed(5'000'000'000, false);
  EXPECT_TRUE(detector.is_settled());
  EXPECT_FALSE(detector.has_given_up());
}

}  // namespace
}  // namespace steplens
