#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "harness/slot_runner.h"

namespace steplens {

enum class PhaseEnd : std::uint8_t { kDone, kInterrupted, kTimeLimit, kBaselineFailed, kUnsteady };

struct PhaseResult {
  PhaseEnd end = PhaseEnd::kDone;
  std::string reason;  // One sentence without a full stop, unless done or interrupted.
};

/// Runs the pilot of every arm that still lacks one (of an A/A only the first: all are the same),
/// then stores the numbers of steps of all blocks in the manifest, once and for all.
///
/// Warm-up: the largest that a pilot found. Measured steps: what the baseline's step time allows.
/// `is_time_over` is asked before each pilot.
PhaseResult run_pilots(RunParts& parts, const std::function<bool()>& is_time_over);

}  // namespace steplens
