#pragma once

#include <string>
#include <vector>

#include "harness/block.h"

namespace steplens {

/// One record for the ranks of a block, from theirs in rank order: what block.json holds.
///
/// Token counts and losses of a step are sums over the ranks, data_wait_ns is that of the rank that
/// waited longest, durations are rank 0's. `data_hash` is
/// that of all ranks together; `samples` are rank 0's, of its GPU. evidence.ranks has a row a rank,
/// with the energy and the clocks of its GPU; evidence.rank_skew_ratio is the
/// mean over the measured steps of (longest - shortest step) / longest. The first status that is
/// not ok is the block's, with the rank in its reason; ranks that disagree about steps, data or
/// weights, before or after training, make the block kInvalid.
BlockRecord record_of_world(const std::vector<BlockRecord>& ranks, std::string data_hash);

}  // namespace steplens
