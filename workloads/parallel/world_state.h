#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "workloads/parallel/world.h"

namespace steplens {

/// What c10d keeps for a world. Apart from world.h, because its headers take half a minute.
struct World::State {
  int rank = 0;
  int size = 1;
  std::int64_t num_talks = 0;  // Names the keys of the store.
  c10::intrusive_ptr<c10d::TCPStore> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // Ends before the store, on which NCCL leans.
};

}  // namespace steplens
