#pragma once

#include <cstddef>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Statistics of an A/B whose unit of evidence is a block (a fresh process), never a step.
///
/// Blocks come in rounds: a round runs every arm once, in random order. One round gives one
/// log-ratio per comparison, log(rate of the candidate / rate of its reference), so that positive
/// means faster. Rates are `valid_tokens_per_s`. Everything below works on those log-ratios.
///
/// Every function is pure: the same numbers and seed give the same answer in every run. Inputs are
/// finite; a value that is not is our own bug (SL_CHECK), because a block without a finite rate is
/// FAILED and never gets here.
namespace steplens {

// ---- Random numbers: ours, because std:: distributions differ between standard libraries. ----

/// SplitMix64 (Steele, Lea, Flood 2014): tiny, passes BigCrush, and any seed, 0 included, is good.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  /// A stream of its own for each `stream_index`; streams of neighbouring indices are unrelated.
  SplitMix64(std::uint64_t seed, std::uint64_t stream_index);

  std::uint64_t next();

  /// Uniform on 0 .. bound - 1, without the bias of a plain remainder. `bound` > 0.
  std::uint64_t below(std::uint64_t bound);

  /// Uniform on [0, 1), 53 bits.
  double uniform();

  /// Standard normal (Marsaglia's polar method; uses log and sqrt of the C library).
  double normal();

 private:
  std::uint64_t state_;
  std::optional<double> spare_normal_;
};

/// Order in which a round runs its blocks: a permutation of 0 .. num_arms - 1, baseline included.
///
/// A fresh uniform draw for each round, identical on every platform. Never rotated or mirrored:
/// with a fixed or balanced order A/A comparisons call 1 to 20 % of null effects real under drift.
std::vector<int> draw_round_order(std::uint64_t seed, int round_index, int num_arms);

// ---- Student's t and its interval. ----

/// P(T <= t). `degrees_of_freedom` > 0; `t` may be infinite.
double student_t_cdf(double t, double degrees_of_freedom);

/// The t with P(T <= t) = `probability`, which lies strictly between 0 and 1. Relative error 1e-9.
double student_t_quantile(double probability, double degrees_of_freedom);

/// Mean log-ratio of one comparison with its t interval.
struct Estimate {
  double mean_log_ratio = 0;
  double standard_deviation = 0;  // Of one round's log-ratio; NaN for one round: undefined.
  int num_rounds = 0;
  double low_log_ratio = 0;  // -infinity for one round.
  double high_log_ratio = 0;
  double confidence = 0;  // Two-sided, of this comparison alone: not simultaneous over comparisons.

  double half_width_log_ratio() const { return (high_log_ratio - low_log_ratio) / 2; }
};

/// `log_ratios`: one per round, at least one. Not a bootstrap: at 10 rounds the percentile and BCa
/// intervals give 9 to 14 % false positives, this one 4.2 to 5.5 %.
Estimate estimate_log_ratio(std::span<const double> log_ratios, double confidence = 0.95);

// ---- p values. ----

/// Up to this many rounds all sign patterns are walked: at most 2^19, a few milliseconds.
constexpr int kMaxExactRounds = 20;

/// Sign patterns drawn beyond that. Ten times the usual 9,999, because it costs only milliseconds:
/// a p near 0.05 then has a sampling error of 0.0007.
constexpr int kNumSampledPatterns = 99'999;

/// Two-sided sign-flip permutation p of one comparison: the share of sign patterns whose |sum| is
/// at least the observed one. Exact up to `kMaxExactRounds` rounds; beyond, (1 + hits) / (1 +
/// draws) from `seed`. `log_ratios` is not empty.
///
/// Sums that differ by less than 1e-12 of the largest possible sum count as equal: they are ties
/// that rounding split.
double sign_flip_p(std::span<const double> log_ratios, std::uint64_t seed);

/// Adjusted p of each arm by step-down max-T (Westfall and Young 1993): the family-wise error is
/// held over all arms together, and the correlation that a shared baseline causes is used.
///
/// `log_ratios_by_arm[arm][round]`, all arms with the same rounds. Whole rounds are flipped, all
/// arms of a round together. The statistic is |t|. Order of the result: that of the arms. An arm
/// that is FAILED or has NO EFFECT must be left out by the caller. For one arm this is
/// `sign_flip_p`.
std::vector<double> step_down_max_t(const std::vector<std::vector<double>>& log_ratios_by_arm,
                                    std::uint64_t seed);

// ---- Verdicts. ----

/// What a report says about one comparison.
enum class Verdict : std::uint8_t {
  kFaster,
  kSlower,
  kEquivalent,
  kInconclusive,
  kNotEnoughRounds,  // Only the estimate is given.
  kNoEffect,         // The toggle did not change what ran: no comparison is made.
  kMathsDiffers,     // The loss trajectory left the tolerance: never "faster".
  kFailed,           // Out of memory, NaN, crash: with its reason.
};

/// As in results.json: "FASTER", "NOT_ENOUGH_ROUNDS", ...
std::string_view verdict_name(Verdict verdict);

/// The same for people: "NOT ENOUGH ROUNDS".
std::string verdict_words(Verdict verdict);

/// When a p value and an interval become a verdict.
struct VerdictRule {
  double alpha = 0.05;              // On the adjusted p.
  double equivalence_ratio = 1.01;  // Equivalent: the interval lies inside 1/1.01 .. 1.01.
  int min_rounds = 6;               // With 5 rounds no p can be below 1/16.
  double confidence = 0.95;         // Of the interval; two one-sided tests at (1 - confidence) / 2.
};

/// For a matrix that stopped on precision: with 0.05 its A/A would reject 6 to 7 %.
constexpr VerdictRule kUntilHalfwidthRule = {.alpha = 0.04, .confidence = 0.96};

/// Faster or slower if `p_adjusted` <= alpha, else equivalent, else inconclusive. Below
/// `min_rounds`: not enough rounds. `estimate` must have the rule's confidence. The verdicts that
/// need no statistics (no effect, maths differs, failed) are the caller's.
Verdict decide(const Estimate& estimate, double p_adjusted, const VerdictRule& rule);

/// Whether the whole interval lies inside the rule's equivalence bounds: a comparison can be faster
/// and yet within one percent.
bool is_within_one_percent(const Estimate& estimate, const VerdictRule& rule);

/// Whether every comparison's 95 % half-width is at most `max_half_width_log_ratio`, so that
/// `--until-halfwidth` may stop the matrix. Never before round 12: a look at few rounds stops on a
/// standard deviation that is small by luck.
bool has_reached_half_width(std::span<const Estimate> estimates, double max_half_width_log_ratio);

/// Smallest effect that this many rounds find with 80 % power, Bonferroni over the comparisons:
/// (t(1 - 0.025 / k, n - 1) + t(0.8, n - 1)) * s / sqrt(n). Absent below 8 rounds, where the
/// formula does not describe a permutation test.
std::optional<double> minimum_detectable_log_ratio(double standard_deviation, int num_rounds,
                                                   int num_comparisons);

/// Most raw p <= 0.05 that an A/A run of `num_comparisons` may show: the 97.5 % quantile of
/// Binomial(num_comparisons, 0.05). 3 of 20, 5 of 40, 10 of 100, 16 of 200.
int max_aa_rejections(int num_comparisons);

// ---- Descriptions of samples. ----

/// `values` in any order, not empty.
double median(std::span<const double> values);

/// Quantile with linear interpolation (type 7 of Hyndman and Fan; the default of R and NumPy). `p`
/// from 0 to 1; `values` in any order, not empty.
double percentile(std::span<const double> values, double p);

/// Divisor n - 1. NaN for a single value: undefined. `values` is not empty.
double sample_standard_deviation(std::span<const double> values);

/// Values far from the rest. They are counted and listed, never dropped.
struct OutlierCounts {
  int num_mild = 0;    // Beyond 1.5 IQR from the quartiles, up to 3 IQR (Tukey).
  int num_severe = 0;  // Beyond 3 IQR.
  int num_mad = 0;     // Modified z-score above 3.5 (Iglewicz and Hoaglin 1993).

  bool operator==(const OutlierCounts&) const = default;
};

OutlierCounts count_outliers(std::span<const double> values);

/// Standard deviation of one block's log rate with the arms' and the rounds' means taken out,
/// pooled over arms: noise without drift. `log_rates_by_arm[arm][round]`, at least two of each, all
/// arms with the same rounds.
double pooled_block_standard_deviation(const std::vector<std::vector<double>>& log_rates_by_arm);

/// Standard deviation of one arm's block log rates from successive differences (von Neumann), so
/// that slow drift over the run hardly counts. `log_rates` in round order, at least two.
double successive_difference_standard_deviation(std::span<const double> log_rates);

/// "Unequal noise": the candidate's block standard deviation exceeds 1.5 times the baseline's. Both
/// tests are too generous there.
bool has_unequal_noise(double candidate_block_standard_deviation,
                       double baseline_block_standard_deviation);

/// "Drift": the median |change| of the round mean from one round to the next exceeds 1.5 times the
/// block standard deviation. `round_mean_log_times` in the order in which the rounds ran; below two
/// rounds there is no change to look at. Pass a standard deviation that is free of drift, such as
/// `pooled_block_standard_deviation`: the plain one of a drifting arm hides what it should reveal.
bool has_drift(const std::vector<double>& round_mean_log_times, double block_standard_deviation);

// ---- Warm-up. ----

/// Finds out how many steps a process needs before its step time is steady.
///
/// Settled when none of the last 10 steps had a device malloc or free, an allocator retry, a module
/// load or a graph instantiation, and the step time of the last 20 steps has no slope of 0.1 % a
/// step or more. A slope counts only if it exceeds twice its standard error. Once settled it stays
/// so: later steps are ignored.
class WarmupDetector {
 public:
  static constexpr int kNumQuietSteps = 10;
  static constexpr int kNumSlopeSteps = 20;
  static constexpr double kMaxSlopeRatio = 0.001;  // Of the mean step time, per step.
  static constexpr int kMaxSteps = 200;
  static constexpr std::int64_t kMaxNs = 60'000'000'000;

  /// Takes the next step; returns `is_settled()`. `had_event`: one of the events above happened in
  /// it.
  bool feed(std::int64_t step_ns, bool had_event);

  bool is_settled() const { return num_warmup_steps_.has_value(); }

  /// Steps before the first one that is clean: it begins the 20 steps, comes after the last event,
  /// and is no slow straggler. The last part is needed because one slow first step, however slow,
  /// gives the slope only 1.73 times its standard error. Absent until settled.
  std::optional<int> num_warmup_steps() const { return num_warmup_steps_; }

  /// 200 steps or 60 s went by unsettled: the pilot ends and is flagged.
  bool has_given_up() const;

  int num_steps() const { return static_cast<int>(step_ns_.size()); }

 private:
  std::vector<double> step_ns_;
  std::int64_t total_ns_ = 0;
  int first_quiet_step_index_ = 0;  // The step after the last event.
  std::optional<int> num_warmup_steps_;
};

}  // namespace steplens
