#include "reports/results/averages.h"

#include <cmath>
#include <numeric>

#include "harness/statistics.h"

namespace steplens {

std::int64_t sum_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::optional<double> mean_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> median_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::optional<double> geometric_mean_of(std::vector<double> values) {
  for (double& value : values) value = std::log(value);
  const std::optional<double> log_mean = mean_of(values);
  return log_mean ? finite(std::exp(*log_mean)) : std::nullopt;
}

std::optional<double> finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace steplens
