#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/block.h"
#include "harness/ranks/rank_place.h"

namespace c10d {
class ProcessGroup;
}

namespace steplens {

/// A host's clock against rank 0's.
struct ClockOffset {
  std::int64_t offset_ns = 0;       // How far it is ahead.
  std::int64_t uncertainty_ns = 0;  // Half of the shortest round trip.
};

/// The ranks of a block, met and connected. They meet at a TCPStore, which listens on 127.0.0.1
/// unless the launcher named another address; gradients travel over NCCL between GPUs and over MPI
/// between CPU ranks.
///
/// Every rank must make the same calls in the same order. Ends before the process does; with MPI
/// its end waits for the other ranks.
class World {
 public:
  /// Meets the others; waits at most block.collective_timeout_s. The rank's GPU is the first
  /// visible one where each rank sees one, else the one of its local rank. ConfigError for what the
  /// launcher said wrong, a port that is in use, and a missing libsteplens_mpi.so; DeviceError if
  /// the others do not come.
  static std::unique_ptr<World> join(const BlockConfig& block, const RankPlace& place);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  c10d::ProcessGroup& group() const;

  /// What rank 0 says. `text` of the other ranks is not looked at.
  std::string from_rank_0(std::string_view text);
  /// This rank's clock (system_clock), by questions to rank 0 that go through the store.
  ClockOffset clock_offset();
  /// On rank 0 the texts of all, in rank order; elsewhere nothing.
  std::vector<std::string> gather(std::string_view text);

  struct State;  // Known to the Reducer's owner, which needs the group as c10d holds it.
  State& state() { return *state_; }

 private:
  explicit World(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace steplens
