#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTieTolerance = 1e-12;

double to_double(std::size_t count) { return static_cast<double>(count); }

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / to_double(values.size());
}

std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// ---- Student's t by the regularised incomplete beta function. ----

/// log(Gamma(a + 1/2) / Gamma(a)). The asymptotic series takes over where the difference of two
/// large lgamma would lose digits; at a = 50 its first omitted term is below 1e-13.
double log_gamma_half_step(double a) {
  if (a < 50) return std::lgamma(a + 0.5) - std::lgamma(a);
  const double inverse = 1 / a;
  const double series =
      inverse *
      (-1.0 / 8 +
       inverse * (1.0 / 128 +
                  inverse * (5.0 / 1024 + inverse * (-21.0 / 32768 + inverse * -399.0 / 262144))));
  return 0.5 * std::log(a) + std::log1p(series);
}

/// Continued fraction of the incomplete beta function by Lentz's method; fast for
/// x < (a + 1) / (a + b + 2).
double beta_continued_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double result = d;
  // Converges in about sqrt(max(a, b)) terms.
  for (int m = 1; m < 100'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    const double factor = d * c;
    result *= factor;
    if (std::abs(factor - 1) < 1e-16) break;
  }
  return result;
}

/// P(T > t) for t >= 0.
double student_t_upper_tail(double t, double degrees_of_freedom) {
  const double square = t * t;
  if (std::isinf(square)) return 0;
  if (square == 0) return 0.5;
  const double a = degrees_of_freedom / 2;
  const double x = degrees_of_freedom / (degrees_of_freedom + square);
  const double one_minus_x = square / (degrees_of_freedom + square);  // No cancellation.
  const double log_beta = 0.5 * std::log(std::numbers::pi) - log_gamma_half_step(a);
  const double front = std::exp(-a * std::log1p(square / degrees_of_freedom) +
                                0.5 * std::log(one_minus_x) - log_beta);
  if (x < (a + 1) / (a + 2.5)) return 0.5 * front * beta_continued_fraction(x, a, 0.5) / a;
  return 0.5 - front * beta_continued_fraction(one_minus_x, 0.5, a);
}

double student_t_density(double t, double degrees_of_freedom) {
  const double log_density = log_gamma_half_step(degrees_of_freedom / 2) -
                             0.5 * std::log(degrees_of_freedom * std::numbers::pi) -
                             (degrees_of_freedom + 1) / 2 * std::log1p(t * t / degrees_of_freedom);
  return std::exp(log_density);
}

// ---- Sign patterns. ----

/// One arm, ready for permutation. Log-ratios are scaled to a sum of squares of 1: no flip changes
/// that sum, so |t| grows with the |sum| of the scaled values alone, with one and the same function
/// for all arms. Comparing |sum| across arms is comparing |t|.
struct ScaledArm {
  std::vector<double> values;
  double observed = 0;   // |sum|.
  double threshold = 0;  // A pattern counts as reaching the observed one from here on.
  std::size_t index = 0;
  std::int64_t num_reaching = 0;
};

ScaledArm scale_arm(std::span<const double> log_ratios, std::size_t index) {
  SL_CHECK(all_finite(log_ratios));
  ScaledArm arm{.values = {log_ratios.begin(), log_ratios.end()}, .index = index};
  // Divided by the largest value first: squares of tiny log-ratios would underflow.
  double largest = 0;
  for (const double value : arm.values) largest = std::max(largest, std::abs(value));
  if (largest > 0) {
    double sum_of_squares = 0;
    for (double& value : arm.values) {
      value /= largest;
      sum_of_squares += value * value;
    }
    for (double& value : arm.values) value /= std::sqrt(sum_of_squares);
  }
  double sum_of_magnitudes = 0;
  for (const double value : arm.values) sum_of_magnitudes += std::abs(value);
  arm.observed = std::abs(std::accumulate(arm.values.begin(), arm.values.end(), 0.0));
  arm.threshold = arm.observed - kTieTolerance * sum_of_magnitudes;
  return arm;
}

/// Signed sums of `values` for all 2^n sign patterns; bit i set flips value i.
std::vector<double> all_signed_sums(std::span<const double> values) {
  std::vector<double> sums = {0.0};
  for (const double value : values) {
    const std::size_t num_sums = sums.size();
    sums.resize(2 * num_sums);
    for (std::size_t i = 0; i < num_sums; ++i) {
      sums[num_sums + i] = sums[i] - value;
      sums[i] += value;
    }
  }
  return sums;
}

/// Counts, for each arm, the patterns in which the largest |sum| among it and the arms before it
/// reaches its own. `arms` by growing observed |sum|. Returns the number of patterns.
///
/// Round 0 keeps its sign, since flipping all rounds changes no |sum|. The others are split into
/// two halves whose sums are tabled: one addition a pattern and arm, and no rounding error that
/// grows along the walk as it would with running sums.
std::int64_t count_all_patterns(std::vector<ScaledArm>& arms) {
  const std::size_t num_rounds = arms.front().values.size();
  const std::size_t num_low = (num_rounds - 1) / 2;
  std::vector<std::vector<double>> low_sums;
  std::vector<std::vector<double>> high_sums;
  for (const ScaledArm& arm : arms) {
    const std::span<const double> values = arm.values;
    low_sums.push_back(all_signed_sums(values.subspan(1, num_low)));
    high_sums.push_back(all_signed_sums(values.subspan(1 + num_low)));
    for (double& sum : high_sums.back()) sum += values.front();
  }
  const std::size_t num_low_patterns = low_sums.front().size();
  const std::size_t num_high_patterns = high_sums.front().size();
  std::vector<double> largest(num_low_patterns);
  for (std::size_t high = 0; high < num_high_patterns; ++high) {
    std::ranges::fill(largest, 0.0);
    for (std::size_t a = 0; a < arms.size(); ++a) {
      const double high_sum = high_sums[a][high];
      const double threshold = arms[a].threshold;
      std::int64_t num_reaching = 0;
      for (std::size_t low = 0; low < num_low_patterns; ++low) {
        largest[low] = std::max(largest[low], std::abs(high_sum + low_sums[a][low]));
        num_reaching += largest[low] >= threshold ? 1 : 0;
      }
      arms[a].num_reaching += num_reaching;
    }
  }
  return static_cast<std::int64_t>(num_low_patterns * num_high_patterns);
}

/// The same over drawn patterns, the observed one included.
std::int64_t count_sampled_patterns(std::vector<ScaledArm>& arms, std::uint64_t seed) {
  const std::size_t num_rounds = arms.front().values.size();
  SplitMix64 random(seed);
  std::vector<double> signs(num_rounds, 1.0);
  for (int draw = 0; draw <= kNumSampledPatterns; ++draw) {
    const bool is_observed = draw == 0;
    std::uint64_t bits = 0;
    for (std::size_t round = 0; round < num_rounds && !is_observed; ++round) {
      if (round % 64 == 0) bits = random.next();
      signs[round] = (bits & 1U) != 0 ? 1.0 : -1.0;
      bits >>= 1U;
    }
    double largest = 0;
    for (ScaledArm& arm : arms) {
      const double sum = std::inner_product(signs.begin(), signs.end(), arm.values.begin(), 0.0);
      largest = std::max(largest, std::abs(sum));
      if (largest >= arm.threshold) ++arm.num_reaching;
    }
  }
  return kNumSampledPatterns + 1;
}

double interpolated_quantile(std::span<const double> sorted, double p) {
  const double position = p * to_double(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - to_double(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> sorted_copy(std::span<const double> values) {
  SL_CHECK(!values.empty());
  SL_CHECK(all_finite(values));
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return sorted;
}

double median_absolute_deviation(std::span<const double> values, double center) {
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::abs(value - center));
  return median(deviations);
}

// A normal sample's standard deviation is 1.4826 MAD; 0.6745 is its inverse.
constexpr double kMadToSigma = 1.482602218505602;
constexpr double kMaxModifiedZScore = 3.5;

/// Whether the least-squares slope over `step_ns` is below the limit or not told from zero.
bool is_level(std::span<const double> step_ns) {
  const double n = to_double(step_ns.size());
  const double mean_index = (n - 1) / 2;
  const double mean_ns = mean(step_ns);
  double index_squares = 0;
  double products = 0;
  for (std::size_t i = 0; i < step_ns.size(); ++i) {
    const double index = to_double(i) - mean_index;
    index_squares += index * index;
    products += index * (step_ns[i] - mean_ns);
  }
  const double slope_ns = products / index_squares;
  if (std::abs(slope_ns) < WarmupDetector::kMaxSlopeRatio * mean_ns) return true;
  double residual_squares = 0;
  for (std::size_t i = 0; i < step_ns.size(); ++i) {
    const double fitted_ns = mean_ns + slope_ns * (to_double(i) - mean_index);
    residual_squares += (step_ns[i] - fitted_ns) * (step_ns[i] - fitted_ns);
  }
  const double standard_error_ns = std::sqrt(residual_squares / (n - 2) / index_squares);
  return std::abs(slope_ns) <= 2 * standard_error_ns;
}

}  // namespace

SplitMix64::SplitMix64(std::uint64_t seed, std::uint64_t stream_index)
    : state_(mix64(seed ^ mix64(stream_index + 0x9e3779b97f4a7c15ULL))) {}

std::uint64_t SplitMix64::next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  return mix64(state_);
}

std::uint64_t SplitMix64::below(std::uint64_t bound) {
  SL_CHECK(bound > 0);
  // The lowest 2^64 mod bound values are drawn again: what is left is a multiple of `bound`.
  const std::uint64_t num_rejected = (0 - bound) % bound;
  std::uint64_t value = next();
  while (value < num_rejected) value = next();
  return value % bound;
}

double SplitMix64::uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

double SplitMix64::normal() {
  if (spare_normal_) {
    const double value = *spare_normal_;
    spare_normal_.reset();
    return value;
  }
  double u = 0;
  double v = 0;
  double square = 0;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    square = u * u + v * v;
  } while (square >= 1 || square == 0);
  const double scale = std::sqrt(-2 * std::log(square) / square);
  spare_normal_ = v * scale;
  return u * scale;
}

std::vector<int> draw_round_order(std::uint64_t seed, int round_index, int num_arms) {
  SL_CHECK(round_index >= 0 && num_arms >= 0);
  SplitMix64 random(seed, static_cast<std::uint64_t>(round_index));
  std::vector<int> order(static_cast<std::size_t>(num_arms));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t num_left = order.size(); num_left > 1; --num_left) {
    std::swap(order[num_left - 1], order[random.below(num_left)]);
  }
  return order;
}

double student_t_cdf(double t, double degrees_of_freedom) {
  SL_CHECK(!std::isnan(t) && degrees_of_freedom > 0 && std::isfinite(degrees_of_freedom));
  const double tail = student_t_upper_tail(std::abs(t), degrees_of_freedom);
  return t < 0 ? tail : 1 - tail;
}

double student_t_quantile(double probability, double degrees_of_freedom) {
  SL_CHECK(probability > 0 && probability < 1);
  SL_CHECK(degrees_of_freedom > 0 && std::isfinite(degrees_of_freedom));
  if (probability == 0.5) return 0;
  const double tail = std::min(probability, 1 - probability);
  double low = 0;
  double high = 1;
  while (student_t_upper_tail(high, degrees_of_freedom) > tail) {
    low = high;
    high *= 2;
  }
  // Newton on the logarithm of the tail, which heavy tails need; bisection where it leaves the
  // bracket.
  double t = (low + high) / 2;
  for (int i = 0; i < 200; ++i) {
    const double tail_at_t = student_t_upper_tail(t, degrees_of_freedom);
    if (tail_at_t > tail) {
      low = t;
    } else {
      high = t;
    }
    double next =
        t + tail_at_t * std::log(tail_at_t / tail) / student_t_density(t, degrees_of_freedom);
    if (!(next > low && next < high)) next = (low + high) / 2;
    const double step = std::abs(next - t);
    t = next;
    if (step <= 1e-15 * t) break;
  }
  return probability < 0.5 ? -t : t;
}

Estimate estimate_log_ratio(std::span<const double> log_ratios, double confidence) {
  SL_CHECK(!log_ratios.empty() && all_finite(log_ratios));
  SL_CHECK(confidence > 0 && confidence < 1);
  Estimate estimate{.mean_log_ratio = mean(log_ratios),
                    .standard_deviation = sample_standard_deviation(log_ratios),
                    .num_rounds = static_cast<int>(log_ratios.size()),
                    .low_log_ratio = -kInfinity,
                    .high_log_ratio = kInfinity,
                    .confidence = confidence};
  if (estimate.num_rounds == 1) return estimate;
  const double half_width = student_t_quantile((1 + confidence) / 2, estimate.num_rounds - 1) *
                            estimate.standard_deviation / std::sqrt(estimate.num_rounds);
  estimate.low_log_ratio = estimate.mean_log_ratio - half_width;
  estimate.high_log_ratio = estimate.mean_log_ratio + half_width;
  return estimate;
}

double sign_flip_p(std::span<const double> log_ratios, std::uint64_t seed) {
  return step_down_max_t({{log_ratios.begin(), log_ratios.end()}}, seed).front();
}

std::vector<double> step_down_max_t(const std::vector<std::vector<double>>& log_ratios_by_arm,
                                    std::uint64_t seed) {
  if (log_ratios_by_arm.empty()) return {};
  const std::size_t num_rounds = log_ratios_by_arm.front().size();
  SL_CHECK(num_rounds > 0);
  std::vector<ScaledArm> arms;
  arms.reserve(log_ratios_by_arm.size());
  for (const std::vector<double>& log_ratios : log_ratios_by_arm) {
    SL_CHECK(log_ratios.size() == num_rounds);
    arms.push_back(scale_arm(log_ratios, arms.size()));
  }
  std::ranges::sort(arms, {},
                    [](const ScaledArm& arm) { return std::pair(arm.observed, arm.index); });

  const std::int64_t num_patterns =
      num_rounds <= kMaxExactRounds ? count_all_patterns(arms) : count_sampled_patterns(arms, seed);
  std::vector<double> p_adjusted(arms.size());
  double largest_so_far = 0;
  for (std::size_t a = arms.size(); a-- > 0;) {
    const double p = static_cast<double>(arms[a].num_reaching) / static_cast<double>(num_patterns);
    largest_so_far = std::max(largest_so_far, p);
    p_adjusted[arms[a].index] = largest_so_far;
  }
  return p_adjusted;
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster: return "FASTER";
    case Verdict::kSlower: return "SLOWER";
    case Verdict::kEquivalent: return "EQUIVALENT";
    case Verdict::kInconclusive: return "INCONCLUSIVE";
    case Verdict::kNotEnoughRounds: return "NOT_ENOUGH_ROUNDS";
    case Verdict::kNoEffect: return "NO_EFFECT";
    case Verdict::kMathsDiffers: return "MATHS_DIFFERS";
    case Verdict::kFailed: return "FAILED";
  }
  SL_CHECK(false);
  return {};
}

std::string verdict_words(Verdict verdict) {
  std::string words(verdict_name(verdict));
  std::ranges::replace(words, '_', ' ');
  return words;
}

Verdict decide(const Estimate& estimate, double p_adjusted, const VerdictRule& rule) {
  SL_CHECK(p_adjusted >= 0 && p_adjusted <= 1);
  SL_CHECK(std::abs(estimate.confidence - rule.confidence) < 1e-9);
  if (estimate.num_rounds < rule.min_rounds) return Verdict::kNotEnoughRounds;
  if (p_adjusted <= rule.alpha) {
    return estimate.mean_log_ratio > 0 ? Verdict::kFaster : Verdict::kSlower;
  }
  return is_within_one_percent(estimate, rule) ? Verdict::kEquivalent : Verdict::kInconclusive;
}

bool is_within_one_percent(const Estimate& estimate, const VerdictRule& rule) {
  SL_CHECK(rule.equivalence_ratio > 1);
  const double bound = std::log(rule.equivalence_ratio);
  return estimate.low_log_ratio > -bound && estimate.high_log_ratio < bound;
}

bool has_reached_half_width(std::span<const Estimate> estimates, double max_half_width_log_ratio) {
  constexpr int kFirstLook = 12;
  return std::ranges::all_of(estimates, [&](const Estimate& estimate) {
    return estimate.num_rounds >= kFirstLook &&
           estimate.half_width_log_ratio() <= max_half_width_log_ratio;
  });
}

std::optional<double> minimum_detectable_log_ratio(double standard_deviation, int num_rounds,
                                                   int num_comparisons) {
  SL_CHECK(num_comparisons > 0);
  if (num_rounds < 8) return std::nullopt;
  const double degrees_of_freedom = num_rounds - 1;
  return (student_t_quantile(1 - 0.025 / num_comparisons, degrees_of_freedom) +
          student_t_quantile(0.8, degrees_of_freedom)) *
         standard_deviation / std::sqrt(num_rounds);
}

int max_aa_rejections(int num_comparisons) {
  SL_CHECK(num_comparisons >= 0);
  constexpr double kRejectionRate = 0.05;
  double probability = std::pow(1 - kRejectionRate, num_comparisons);
  // Beyond about 14,000 comparisons the first term underflows; no run has so many.
  SL_CHECK(probability > 0);
  double cumulative = probability;
  int num_rejections = 0;
  while (cumulative < 0.975) {
    probability *= static_cast<double>(num_comparisons - num_rejections) / (num_rejections + 1) *
                   kRejectionRate / (1 - kRejectionRate);
    cumulative += probability;
    ++num_rejections;
  }
  return num_rejections;
}

double median(std::span<const double> values) { return percentile(values, 0.5); }

double percentile(std::span<const double> values, double p) {
  SL_CHECK(p >= 0 && p <= 1);
  return interpolated_quantile(sorted_copy(values), p);
}

double sample_standard_deviation(std::span<const double> values) {
  SL_CHECK(!values.empty());
  if (values.size() == 1) return std::numeric_limits<double>::quiet_NaN();
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / to_double(values.size() - 1));
}

OutlierCounts count_outliers(std::span<const double> values) {
  if (values.empty()) return {};
  const std::vector<double> sorted = sorted_copy(values);
  const double first_quartile = interpolated_quantile(sorted, 0.25);
  const double third_quartile = interpolated_quantile(sorted, 0.75);
  const double center = interpolated_quantile(sorted, 0.5);
  const double interquartile_range = third_quartile - first_quartile;
  double sigma = kMadToSigma * median_absolute_deviation(sorted, center);
  if (sigma == 0) {
    // More than half of the values are equal: Iglewicz and Hoaglin then use the mean deviation.
    double sum_of_deviations = 0;
    for (const double value : sorted) sum_of_deviations += std::abs(value - center);
    sigma = std::sqrt(std::numbers::pi / 2) * sum_of_deviations / to_double(sorted.size());
  }
  OutlierCounts counts;
  for (const double value : sorted) {
    const double outside = std::max(first_quartile - value, value - third_quartile);
    if (outside > 3 * interquartile_range) {
      ++counts.num_severe;
    } else if (outside > 1.5 * interquartile_range) {
      ++counts.num_mild;
    }
    if (std::abs(value - center) > kMaxModifiedZScore * sigma) ++counts.num_mad;
  }
  return counts;
}

double pooled_block_standard_deviation(const std::vector<std::vector<double>>& log_rates_by_arm) {
  SL_CHECK(log_rates_by_arm.size() >= 2);
  const std::size_t num_rounds = log_rates_by_arm.front().size();
  SL_CHECK(num_rounds >= 2);
  std::vector<double> round_means(num_rounds, 0.0);
  for (const std::vector<double>& log_rates : log_rates_by_arm) {
    SL_CHECK(log_rates.size() == num_rounds && all_finite(log_rates));
    for (std::size_t round = 0; round < num_rounds; ++round) {
      round_means[round] += log_rates[round] / to_double(log_rates_by_arm.size());
    }
  }
  const double grand_mean = mean(round_means);
  double squares = 0;
  for (const std::vector<double>& log_rates : log_rates_by_arm) {
    const double arm_mean = mean(log_rates);
    for (std::size_t round = 0; round < num_rounds; ++round) {
      const double residual = log_rates[round] - arm_mean - round_means[round] + grand_mean;
      squares += residual * residual;
    }
  }
  return std::sqrt(squares / to_double((log_rates_by_arm.size() - 1) * (num_rounds - 1)));
}

double successive_difference_standard_deviation(std::span<const double> log_rates) {
  SL_CHECK(log_rates.size() >= 2 && all_finite(log_rates));
  double squares = 0;
  for (std::size_t i = 1; i < log_rates.size(); ++i) {
    squares += (log_rates[i] - log_rates[i - 1]) * (log_rates[i] - log_rates[i - 1]);
  }
  return std::sqrt(squares / (2 * to_double(log_rates.size() - 1)));
}

bool has_unequal_noise(double candidate_block_standard_deviation,
                       double baseline_block_standard_deviation) {
  return candidate_block_standard_deviation > 1.5 * baseline_block_standard_deviation;
}

bool has_drift(const std::vector<double>& round_mean_log_times, double block_standard_deviation) {
  if (round_mean_log_times.size() < 2) return false;
  std::vector<double> changes;
  for (std::size_t i = 1; i < round_mean_log_times.size(); ++i) {
    changes.push_back(std::abs(round_mean_log_times[i] - round_mean_log_times[i - 1]));
  }
  return median(changes) > 1.5 * block_standard_deviation;
}

bool WarmupDetector::feed(std::int64_t step_ns, bool had_event) {
  SL_CHECK(step_ns >= 0);
  if (is_settled()) return true;
  step_ns_.push_back(static_cast<double>(step_ns));
  total_ns_ += step_ns;
  if (had_event) first_quiet_step_index_ = num_steps();
  if (num_steps() < kNumSlopeSteps) return false;
  if (num_steps() - first_quiet_step_index_ < kNumQuietSteps) return false;
  const auto window = std::span<const double>(step_ns_).last(kNumSlopeSteps);
  if (!is_level(window)) return false;

  const double center_ns = median(window);
  // No less than what the slope rule lets pass over its window: a spread of zero makes every step
  // an outlier.
  const double slowest_ns = center_ns + std::max(kMaxModifiedZScore * kMadToSigma *
                                                     median_absolute_deviation(window, center_ns),
                                                 kMaxSlopeRatio * kNumSlopeSteps * center_ns);
  int first_clean = std::max(num_steps() - kNumSlopeSteps, first_quiet_step_index_);
  while (step_ns_[static_cast<std::size_t>(first_clean)] > slowest_ns) ++first_clean;
  num_warmup_steps_ = first_clean;
  return true;
}

bool WarmupDetector::has_given_up() const {
  return !is_settled() && (num_steps() >= kMaxSteps || total_ns_ >= kMaxNs);
}

}  // namespace steplens
