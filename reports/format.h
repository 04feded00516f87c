#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

/// The one home of number formatting: everything is stored in nanoseconds, bytes and ratios, and
/// only these functions make milliseconds, GiB and percents of them, never with more than four
/// significant digits. A value that is not finite prints as "-": it is absent, and absent is not 0.
namespace steplens {

/// What a table prints where there is no number.
inline constexpr std::string_view kNoNumber = "-";

/// `num_digits` significant digits, thousands separated by commas: 294134 with 4 is "294,100".
/// Trailing zeros stay, because they say how well the value is known: "34.0".
std::string format_significant(double value, int num_digits = 4);

/// Exact: "1,364,200". For counts, which have no last digit to doubt.
std::string format_count(std::int64_t count);

/// A count that may be a mean: exact where it is whole ("12,000"), else four digits ("1.500").
std::string format_mean_count(double count);

/// "111.4 ms", "64.90 us", "2.000 s". From 100 s on as `format_long_duration_ns`.
std::string format_duration_ns(double duration_ns);

/// "1 h 02 min", "3 min 20 s", "45 s".
std::string format_long_duration_ns(double duration_ns);

/// "34.0 GiB"; below 1000 MiB "115 MiB", and so on down to "512 B".
std::string format_bytes(double bytes);

/// "294,100": the unit (tokens a second) stands in the column's header.
std::string format_rate(double per_s);

/// A share, three digits: 0.2371 is "23.7 %".
std::string format_percent(double ratio);

/// A small relative deviation: "9.1e-05", "0".
std::string format_deviation(double ratio);

/// A change of 0.2 % and an interval of its own, in percent, from ratios: "+3.1 % [2.9, 3.3]". The
/// digits follow the interval: the last one is the first digit of its half-width, or the second
/// where the first is a 1. Without an interval (one round) two digits and no brackets.
std::string format_effect(double ratio, std::optional<double> low_ratio,
                          std::optional<double> high_ratio);

/// A difference that has no interval, two digits: 1.0123 is "+1.2 %".
std::string format_change(double ratio);

/// "0.012"; below 0.001 one digit: "0.0005".
std::string format_p(double p);

/// A value from a JSON object whose key carries its unit ("total_memory_bytes", "sm_clock_mhz").
std::string format_by_key(std::string_view key, const nlohmann::json& value);

/// The value or "-".
template <typename Value, typename Format>
std::string format_or_absent(const std::optional<Value>& value, Format format) {
  return value ? format(*value) : std::string(kNoNumber);
}

/// "1.016": numerator / denominator, or "-" where one is absent or the denominator is not positive.
std::string format_quotient(const std::optional<double>& numerator,
                            const std::optional<double>& denominator);

}  // namespace steplens
