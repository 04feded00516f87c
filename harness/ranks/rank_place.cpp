#include "harness/ranks/rank_place.h"

#include <charconv>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

struct Convention {
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
};
constexpr Convention kConventions[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

int number_in(const ReadVariable& variable, const char* name, int least, int most) {
  const char* value = variable(name);
  const std::string_view text = value == nullptr ? "" : value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    throw ConfigError(
        most == std::numeric_limits<int>::max()
            ? fmt::format("{}={}: takes an integer >= {}", name, text, least)
            : fmt::format("{}={}: takes an integer from {} to {}", name, text, least, most));
  }
  return number;
}

}  // namespace

std::optional<RankPlace> rank_place_from(const ReadVariable& variable) {
  constexpr int kMost = std::numeric_limits<int>::max();
  for (const Convention& convention : kConventions) {
    if (variable(convention.rank) == nullptr || variable(convention.world_size) == nullptr) {
      continue;
    }
    RankPlace place{.launcher = convention.launcher,
                    .world_size = number_in(variable, convention.world_size, 1, kMost)};
    place.rank = number_in(variable, convention.rank, 0, place.world_size - 1);
    place.local_rank = variable(convention.local_rank) == nullptr
                           ? place.rank
                           : number_in(variable, convention.local_rank, 0, kMost);
    const char* address = variable("MASTER_ADDR");
    if (address != nullptr && *address != '\0') {
      if (variable("MASTER_PORT") == nullptr) {
        throw ConfigError("MASTER_ADDR is set and MASTER_PORT is not; set both or neither");
      }
      place.master_address = address;
      place.master_port = static_cast<std::uint16_t>(number_in(variable, "MASTER_PORT", 1, 65'535));
      const char* agent = variable("TORCHELASTIC_USE_AGENT_STORE");
      place.is_store_of_launcher = agent != nullptr && std::string_view(agent) == "True";
    }
    return place;
  }
  return std::nullopt;
}

RankPlace place_in_block(const ReadVariable& variable, int world_size) {
  const std::optional<RankPlace> place = rank_place_from(variable);
  if (world_size == 1 && (!place || place->world_size == 1 || place->launcher == "srun")) return {};
  if (!place) {
    throw ConfigError(
        fmt::format("world_size={}: nobody says which rank this process is; start it by "
                    "`steplens ... --ranks {}`, torchrun, mpirun or srun",
                    world_size, world_size));
  }
  if (place->world_size != world_size) {
    throw ConfigError(fmt::format("world_size={}: the block is for {} rank{}, and {} started {}",
                                  world_size, world_size, world_size == 1 ? "" : "s",
                                  place->launcher, place->world_size));
  }
  return *place;
}

}  // namespace steplens
