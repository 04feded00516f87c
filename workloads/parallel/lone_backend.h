#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace steplens {

/// A c10d backend for a world of one CPU rank: broadcast, sum and allgather leave or copy what is
/// there, and are done when they return.
c10::intrusive_ptr<c10d::Backend> make_lone_backend();

}  // namespace steplens
