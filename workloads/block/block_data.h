#pragma once

#include <cstdint>
#include <vector>

#include "harness/block.h"
#include "workloads/catalog/batcher.h"
#include "workloads/catalog/token_file.h"
#include "workloads/catalog/world_data.h"

namespace steplens {

/// The tokens of a block, of this rank's share: those of the warm-up, then those of the measured
/// steps. Keeps what was handed out, because it is hashed after the measured steps: SHA-256 has no
/// place inside the clock.
class BlockData {
 public:
  /// Of a pilot there are at least kNumProbeSteps measured steps. ConfigError for a token file that
  /// cannot be used or does not fit the config. `block` must outlive it.
  explicit BlockData(const BlockConfig& block);
  BlockData(const BlockData&) = delete;
  BlockData& operator=(const BlockData&) = delete;

  /// The most steps that can be run, warm-up included.
  std::int64_t num_steps() const { return block_.num_warmup_steps + num_measured_steps_; }

  /// Batch of step `index`, counted from the warm-up's first. One thread at a time.
  StepBatch make_batch(std::int64_t index);

  /// Forgets batches beyond the first `num_steps`, which a feed made ahead. Call once no feed makes
  /// more.
  void keep_consumed(std::int64_t num_steps);

  /// data_hash and data_set_hash, of the batches that were kept.
  void fill_hashes(BlockRecord& record) const;

  /// What all ranks were to consume in the steps that were kept.
  WorldDataHashes world_hashes() const;

  /// Over the whole region that a pilot may use: its few steps may all lie in one bucket.
  std::int64_t num_distinct_row_lengths() const;

 private:
  const BlockConfig& block_;
  TokenFile file_;
  std::int64_t num_measured_steps_;
  Batcher warmup_, measured_;
  std::vector<StepBatch> consumed_;
};

}  // namespace steplens
