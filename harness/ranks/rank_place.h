#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace steplens {

/// Which of the processes of a block this is, as whoever started it says.
struct RankPlace {
  std::string launcher;  // "torchrun", "mpirun", "srun".
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // Among those on this host.
  /// Where rank 0 listens for the others; empty: they meet through the block's folder.
  std::string master_address;
  std::uint16_t master_port = 0;
  bool is_store_of_launcher = false;  // torchrun listens there itself: every rank is a client.
};

/// Value of an environment variable; null if it is not set.
using ReadVariable = std::function<const char*(const char* name)>;

/// Reads the environment as torchrun (RANK, WORLD_SIZE, LOCAL_RANK; also Steplens's own launcher),
/// Open MPI's or MPICH's mpirun, and srun set it, the first of them that is there; MASTER_ADDR and
/// MASTER_PORT with each. Absent if none of them started this process. ConfigError names a variable
/// that is no number, a rank outside of its world, and MASTER_ADDR without MASTER_PORT.
std::optional<RankPlace> rank_place_from(const ReadVariable& variable);

/// Rank and place of a block that is to run on `world_size` ranks. ConfigError if the launcher says
/// another number, or if there are to be several ranks and nobody says which one this is. One rank
/// under srun stays one: a batch script sees the variables of its whole allocation.
RankPlace place_in_block(const ReadVariable& variable, int world_size);

}  // namespace steplens
