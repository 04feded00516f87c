#include "workloads/catalog/world_data.h"

#include <deque>

#include "workloads/catalog/data_hash.h"

namespace steplens {

WorldDataHashes world_data_hashes(const TokenFile& file, const RunConfig& config,
                                  std::span<const Region> regions, std::int64_t num_steps) {
  const auto num_ranks = static_cast<std::size_t>(config.world_size);
  DataHash all;
  std::deque<DataHash> own(num_ranks);
  std::int64_t num_done = 0;
  for (const Region& region : regions) {
    std::deque<Batcher> batchers;
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      batchers.emplace_back(file, config, region, static_cast<int>(rank),
                            static_cast<int>(num_ranks));
    }
    for (std::int64_t i = 0; i < region.count && num_done < num_steps; ++i, ++num_done) {
      std::vector<StepBatch> shares;
      for (std::size_t rank = 0; rank < num_ranks; ++rank) {
        shares.push_back(batchers[rank].step(i));
        own[rank].add(shares.back());
      }
      for (std::size_t m = 0; m < shares.front().micro_batches.size(); ++m) {
        for (StepBatch& share : shares) {
          all.add({.micro_batches = {std::move(share.micro_batches[m])}});
        }
      }
    }
  }
  WorldDataHashes hashes{.all = all.hex()};
  for (const DataHash& hash : own) hashes.by_rank.push_back(hash.hex());
  return hashes;
}

}  // namespace steplens
