#include "workloads/block/block_world.h"

#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/ranks/world_record.h"
#include "harness/trace/merge_ranks.h"
#include "workloads/block/block_data.h"

namespace steplens {

JoinedWorld::JoinedWorld(const BlockConfig& block, const RankPlace& place)
    : num_exceptions_(std::uncaught_exceptions()) {
  if (uses_reducer(block.config)) world_ = World::join(block, place);
}

JoinedWorld::~JoinedWorld() {
  if (std::uncaught_exceptions() > num_exceptions_) static_cast<void>(world_.release());
}

std::int64_t as_rank_0_says(World* world, std::int64_t value) {
  return world == nullptr ? value : std::stoll(world->from_rank_0(std::to_string(value)));
}

void note_clock(World& world, BlockRecord& record) {
  const ClockOffset offset = world.clock_offset();
  record.evidence[std::string(kClockOffsetKey)] = offset.offset_ns;
  record.evidence[std::string(kClockUncertaintyKey)] = offset.uncertainty_ns;
}

void become_record_of_world(World& world, const BlockData& data, BlockRecord& record) {
  const std::vector<std::string> texts = world.gather(to_json(record).dump());
  if (texts.empty()) return;
  std::vector<BlockRecord> ranks;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ranks.push_back(block_record_from_json(nlohmann::json::parse(texts[i]),
                                           fmt::format("record of rank {}", i)));
  }
  const WorldDataHashes hashes = data.world_hashes();
  record = record_of_world(ranks, hashes.all);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (record.status == BlockStatus::kOk && ranks[i].data_hash != hashes.by_rank[i]) {
      record.status = BlockStatus::kInvalid;
      record.reason = fmt::format("rank {} trained on other tokens than its share", i);
    }
  }
}

}  // namespace steplens
