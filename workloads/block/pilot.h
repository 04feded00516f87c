#pragma once

#include <cstdint>

#include "harness/block.h"
#include "harness/machine.h"
#include "workloads/evidence.h"
#include "workloads/ranges.h"

namespace steplens {

class BlockData;
class StepRunner;
class World;

/// Steps of a pilot over which operators are counted, after its warm-up.
inline constexpr std::int64_t kNumProbeSteps = 2;

/// Counts of the process before a block: one that runs several blocks (a test) counts on.
struct CountsBefore {
  Counters events = event_counts();
  std::int64_t num_ranges = num_ranges_opened();
};

/// Warm-up by detection, then a few steps whose operators are counted: fills the record's steps,
/// samples and the evidence "counters". `world`: null with one rank; else rank 0 says when the
/// warm-up is over.
void run_pilot(const BlockConfig& block, const BlockData& data, StepRunner& steps, Sampler& sampler,
               World* world, const CountsBefore& before, BlockRecord& record);

}  // namespace steplens
