#pragma once

#include <functional>
#include <string>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace steplens {

/// What a backend over MPI is told.
struct MpiBackendOptions {
  int rank = 0;
  int world_size = 1;
  double timeout_s = 120;  // Of one collective, from when this rank enters it.
  /// Around each collective, on the communication thread; may be empty. `name`: "all-reduce".
  std::function<void(const char* name)> on_collective_begin;
  std::function<void()> on_collective_end;
};

/// A c10d backend over MPI_COMM_WORLD: broadcast, allreduce (sum), allgather, barrier, on dense CPU
/// tensors, which it adds up in their own type, bf16 and fp16 among them. Collectives run in the
/// order of the calls on one thread, which is the only one that calls MPI; the returned Work
/// completes, or fails once `timeout_s` is over.
///
/// Lives in libsteplens_mpi.so, so that the worker needs MPI only where ranks run on CPUs. At most
/// one in a process. Returns null with the reason in `failure` if MPI says another rank or size.
using MakeMpiBackend = c10::intrusive_ptr<c10d::Backend>(const MpiBackendOptions& options,
                                                         std::string& failure);
inline constexpr const char* kMakeMpiBackendSymbol = "steplens_make_mpi_backend";

}  // namespace steplens
