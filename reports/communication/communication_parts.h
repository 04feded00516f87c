#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/run_config.h"
#include "reports/breakdown/traced_arm.h"
#include "reports/document.h"

/// What the report says about ranks.
namespace steplens {

/// An arm of several ranks: its traces, and what its pilot counted.
struct RankedArm {
  const TracedArm* traced = nullptr;
  RunConfig config;
  std::vector<std::int64_t> all_reduce_bytes;  // Of one step, as sent; empty: not known.
  std::optional<double> rank_skew_ratio;       // Mean over its throughput blocks.
};

/// One row an arm: all-reduces, bytes against the ring formula, communication exposed and hidden,
/// bus bandwidth, skew.
Table communication_table(const std::vector<RankedArm>& arms);

/// One row a rank of an arm.
Table rank_table(const RankedArm& arm);

/// One row an all-reduce of one step of rank 0; the first `max_rows`.
Table bucket_table(const RankedArm& arm, std::size_t max_rows = 16);

}  // namespace steplens
