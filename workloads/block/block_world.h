#pragma once

#include <cstdint>
#include <memory>

#include "harness/block.h"
#include "harness/ranks/rank_place.h"
#include "workloads/parallel/world.h"

namespace steplens {

class BlockData;

/// The world of a block whose gradients go through the Reducer. An error leaves it to itself: its
/// end would wait for the other ranks, and they wait for this one.
class JoinedWorld {
 public:
  JoinedWorld(const BlockConfig& block, const RankPlace& place);
  ~JoinedWorld();
  JoinedWorld(const JoinedWorld&) = delete;
  JoinedWorld& operator=(const JoinedWorld&) = delete;
  /// Null without the Reducer.
  World* get() const { return world_.get(); }

 private:
  int num_exceptions_;
  std::unique_ptr<World> world_;
};

/// Ranks must do the same number of steps: what rank 0 measured decides. `value` itself
/// without a world (null).
std::int64_t as_rank_0_says(World* world, std::int64_t value);

/// Notes in the record's evidence how this rank's clock stands against rank 0's, for traces that
/// are to be merged. All ranks call it.
void note_clock(World& world, BlockRecord& record);

/// Rank 0's record becomes that of all ranks; the others' stay theirs. All ranks call it.
void become_record_of_world(World& world, const BlockData& data, BlockRecord& record);

}  // namespace steplens
