#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/block.h"

/// Averages as results.json has them: absent, never 0 or infinite, where there is nothing to
/// average.
namespace steplens {

/// The numbers that the blocks state; a block that states none is left out.
template <typename Get>
std::vector<double> collect(const std::vector<const BlockRecord*>& blocks, Get get) {
  std::vector<double> values;
  for (const BlockRecord* block : blocks) {
    if (const std::optional<double> value = get(*block)) values.push_back(*value);
  }
  return values;
}

std::int64_t sum_of(const std::vector<std::int64_t>& values);

std::optional<double> mean_of(const std::vector<double>& values);
std::optional<double> median_of(const std::vector<double>& values);
/// Of positive values.
std::optional<double> geometric_mean_of(std::vector<double> values);

/// Absent if `value` is absent, infinite or not a number.
std::optional<double> finite(std::optional<double> value);

}  // namespace steplens
