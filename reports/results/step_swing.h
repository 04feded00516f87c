#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/block.h"

namespace steplens {

/// Steps that are longer at the same place of every block: the state of the GPU changes in the
/// measured steps, in step with the block and not by chance. A power limit does that in the first
/// seconds of load: the clock overshoots, falls and comes back.
struct StepSwing {
  std::int64_t step_index = 0;   // Of the measured steps, from 0: the longest one.
  double excess_ratio = 0;       // Its length / the median step of its block - 1, median of blocks.
  double mean_excess_ratio = 0;  // The same of the block's mean step.
};

/// Of an arm's usable blocks. Absent with fewer than 3 blocks, blocks of unequal length, or fewer
/// than 8 steps; where no step is 5 % longer than the median one; and where that step is not at
/// least 3 % longer in each block (of 6 and more: in all but one). The first and the last step are
/// not looked at: starting and ending a block costs the host something there.
std::optional<StepSwing> find_step_swing(const std::vector<const BlockRecord*>& blocks);

}  // namespace steplens
