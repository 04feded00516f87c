#include "reports/format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

constexpr int kMaxDigits = 4;
constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kGibibyte = kMebibyte * 1024.0;

// Power of ten of the first digit once `value` is rounded to `num_digits`: 999.96 with 4 has 3.
int exponent_of(double value, int num_digits) {
  const std::string text = fmt::format("{:.{}e}", value, num_digits - 1);
  return std::stoi(text.substr(text.find('e') + 1));
}

std::string with_thousands(std::string digits) {
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.starts_with('-') || digits.starts_with('+') ? 1 : 0;
  for (std::size_t i = point; i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

// "0.00", never "-0.00": what rounds to zero has no sign.
std::string fixed(double value, int num_decimals) {
  std::string text = fmt::format("{:.{}f}", value, num_decimals);
  if (text.starts_with('-') && text.find_first_of("123456789") == std::string::npos)
    text.erase(0, 1);
  return with_thousands(text);
}

std::string fixed_signed(double value, int num_decimals) {
  std::string text = fixed(value, num_decimals);
  if (!text.starts_with('-') && text.find_first_of("123456789") != std::string::npos) {
    text.insert(0, "+");
  }
  return text;
}

double percent_of(double ratio) { return 100 * (ratio - 1); }

// Decimals of an effect in percent such that the last digit is the first of the half-width (the
// second where the first is a 1) and no number of the three has more than four digits.
int effect_decimals(double percent, double low_percent, double high_percent) {
  const double half_width = (high_percent - low_percent) / 2;
  const double largest =
      std::max({std::abs(percent), std::abs(low_percent), std::abs(high_percent)});
  const int most = largest > 0 ? kMaxDigits - 1 - exponent_of(largest, kMaxDigits) : kMaxDigits;
  int decimals = most;
  if (half_width > 0) {
    const int exponent = exponent_of(half_width, 2);
    const bool begins_with_one = half_width / std::pow(10.0, exponent) < 1.95;
    decimals = (begins_with_one ? 1 : 0) - exponent;
  }
  return std::clamp(decimals, 0, std::max(0, most));
}

}  // namespace

std::string format_significant(double value, int num_digits) {
  if (!std::isfinite(value)) return std::string(kNoNumber);
  const int digits = std::clamp(num_digits, 1, kMaxDigits);
  if (value == 0) return "0";
  const int exponent = exponent_of(value, digits);
  const double unit = std::pow(10.0, exponent - digits + 1);
  return fixed(exponent >= digits ? std::round(value / unit) * unit : value,
               std::max(0, digits - 1 - exponent));
}

std::string format_count(std::int64_t count) { return with_thousands(fmt::format("{}", count)); }

std::string format_mean_count(double count) {
  const bool is_whole = std::abs(count) < 1e15 && count == std::round(count);
  return is_whole ? format_count(static_cast<std::int64_t>(count)) : format_significant(count);
}

std::string format_duration_ns(double duration_ns) {
  if (!std::isfinite(duration_ns)) return std::string(kNoNumber);
  if (std::abs(duration_ns) >= 100e9) return format_long_duration_ns(duration_ns);
  struct Scale {
    double ns;
    std::string_view unit;
  };
  constexpr std::array<Scale, 3> kScales = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}}};
  for (const Scale& scale : kScales) {
    // Just below the unit but rounded up to it: 999.96 us is "1.000 ms".
    if (std::abs(duration_ns) >= scale.ns * 0.99995) {
      return fmt::format("{} {}", format_significant(duration_ns / scale.ns), scale.unit);
    }
  }
  return fmt::format("{} ns", format_significant(duration_ns, 3));
}

std::string format_long_duration_ns(double duration_ns) {
  if (!std::isfinite(duration_ns)) return std::string(kNoNumber);
  const auto seconds = static_cast<std::int64_t>(std::llround(duration_ns / 1e9));
  if (seconds >= 3600) return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} s", seconds);
}

std::string format_bytes(double bytes) {
  if (!std::isfinite(bytes)) return std::string(kNoNumber);
  if (std::abs(bytes) < 1000) return fmt::format("{:.0f} B", bytes);
  if (std::abs(bytes) < 999.5 * 1024) return format_significant(bytes / 1024, 3) + " KiB";
  if (std::abs(bytes) < 999.5 * kMebibyte) {
    return format_significant(bytes / kMebibyte, 3) + " MiB";
  }
  return format_significant(bytes / kGibibyte, 3) + " GiB";
}

std::string format_rate(double per_s) { return format_significant(per_s); }

std::string format_percent(double ratio) {
  if (!std::isfinite(ratio)) return std::string(kNoNumber);
  return format_significant(100 * ratio, 3) + " %";
}

std::string format_deviation(double ratio) {
  if (ratio == 0) return "0";
  return std::isfinite(ratio) ? fmt::format("{:.1e}", ratio) : "not finite";
}

std::string format_effect(double ratio, std::optional<double> low_ratio,
                          std::optional<double> high_ratio) {
  if (!low_ratio || !high_ratio || !std::isfinite(*low_ratio) || !std::isfinite(*high_ratio)) {
    return format_change(ratio);
  }
  const double percent = percent_of(ratio);
  const double low = percent_of(*low_ratio);
  const double high = percent_of(*high_ratio);
  const int decimals = effect_decimals(percent, low, high);
  return fmt::format("{} % [{}, {}]", fixed_signed(percent, decimals), fixed(low, decimals),
                     fixed(high, decimals));
}

std::string format_change(double ratio) {
  const double percent = percent_of(ratio);
  if (!std::isfinite(percent)) return std::string(kNoNumber);
  if (percent == 0) return "0 %";
  const int decimals = std::clamp(1 - exponent_of(percent, 2), 0, kMaxDigits);
  return fixed_signed(percent, decimals) + " %";
}

std::string format_p(double p) {
  if (!std::isfinite(p)) return std::string(kNoNumber);
  if (p >= 0.001 || p <= 0) return fmt::format("{:.3f}", p);
  return fmt::format("{:.{}f}", p, -exponent_of(p, 1));
}

std::string format_by_key(std::string_view key, const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return std::string(kNoNumber);
  if (!value.is_number()) return value.dump();
  const auto number = value.get<double>();
  if (key.ends_with("_bytes")) return format_bytes(number);
  if (key.ends_with("_ns")) return format_duration_ns(number);
  if (key.ends_with("_ratio")) return format_percent(number);
  if (key.ends_with("_mhz")) return format_significant(number) + " MHz";
  if (key.ends_with("_watts")) return format_significant(number) + " W";
  if (key.ends_with("_celsius")) return format_significant(number, 3) + " C";
  return value.is_number_integer() ? value.dump() : format_significant(number);
}

std::string format_quotient(const std::optional<double>& numerator,
                            const std::optional<double>& denominator) {
  if (!numerator || !denominator || *denominator <= 0) return std::string(kNoNumber);
  return fmt::format("{:.3f}", *numerator / *denominator);
}

}  // namespace steplens
