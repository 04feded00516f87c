#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "workloads/catalog/batcher.h"

namespace steplens {

/// What the ranks of a block are to consume.
struct WorldDataHashes {
  /// `data_hash` of all ranks: micro-batch by micro-batch the shares of the ranks, in rank order.
  /// For packed rows that is the order in which one rank would consume them, whatever the number of
  /// ranks and micro-batches.
  std::string all;
  std::vector<std::string> by_rank;  // What each rank's own `data_hash` must be.
};

/// Over the first `num_steps` steps of `regions`, one region after the other.
WorldDataHashes world_data_hashes(const TokenFile& file, const RunConfig& config,
                                  std::span<const Region> regions, std::int64_t num_steps);

}  // namespace steplens
