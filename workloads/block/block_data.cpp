#include "workloads/block/block_data.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "workloads/block/pilot.h"
#include "workloads/catalog/data_hash.h"

namespace steplens {

BlockData::BlockData(const BlockConfig& block)
    : block_(block),
      file_(block.data_path),
      num_measured_steps_(block.kind == BlockKind::kPilot
                              ? std::max(block.num_measured_steps, kNumProbeSteps)
                              : block.num_measured_steps),
      warmup_(file_, block.config, {block.first_data_step_index, block.num_warmup_steps},
              block.rank, block.world_size),
      measured_(file_, block.config,
                {block.first_data_step_index + block.num_warmup_steps, num_measured_steps_},
                block.rank, block.world_size) {
  file_.check_fits(block.config);
  consumed_.reserve(static_cast<std::size_t>(num_steps()));
}

StepBatch BlockData::make_batch(std::int64_t index) {
  StepBatch batch = index < block_.num_warmup_steps
                        ? warmup_.step(index)
                        : measured_.step(index - block_.num_warmup_steps);
  consumed_.push_back(batch);
  return batch;
}

void BlockData::keep_consumed(std::int64_t num_steps) {
  consumed_.resize(static_cast<std::size_t>(num_steps));
}

void BlockData::fill_hashes(BlockRecord& record) const {
  DataHash hash;
  for (const StepBatch& batch : consumed_) hash.add(batch);
  record.data_hash = hash.hex();
  std::vector<std::int64_t> offsets(warmup_.span_offsets().begin(), warmup_.span_offsets().end());
  offsets.insert(offsets.end(), measured_.span_offsets().begin(), measured_.span_offsets().end());
  record.data_set_hash = data_set_hash(file_, offsets, block_.config.sequence_length);
}

WorldDataHashes BlockData::world_hashes() const {
  const Region regions[] = {
      {block_.first_data_step_index, block_.num_warmup_steps},
      {block_.first_data_step_index + block_.num_warmup_steps, num_measured_steps_}};
  return world_data_hashes(file_, block_.config, regions, std::ssize(consumed_));
}

std::int64_t BlockData::num_distinct_row_lengths() const {
  std::set<std::int64_t> lengths;
  for (std::int64_t i = 0; i < block_.num_warmup_steps; ++i) {
    for (const MicroBatch& micro : warmup_.step(i).micro_batches) {
      lengths.insert(micro.row_length);
    }
  }
  return std::ssize(lengths);
}

}  // namespace steplens
