#pragma once

#include <cstdint>
#include <string>

#include "harness/trace/trace.h"

namespace steplens {

/// What the host did in a trace's steps, besides launching. Counts and times are sums over
/// `num_steps` steps; only threads that open the range "step" count, for the others delay nobody.
struct HostFacts {
  std::int64_t num_steps = 0;
  std::int64_t num_micro_steps = 0;  // Instances of "micro-step" within the steps.

  std::int64_t num_waits = 0;  // Calls that return only when the device has caught up.
  std::int64_t wait_ns = 0;    // Union of them.
  std::string longest_wait;    // Name of the call with the longest sum; empty without one,
  std::string wait_range;      // and the range in which most of that sum lies.

  std::int64_t num_allocator_calls = 0;  // cudaMalloc, cudaFree, ... of any thread.
  std::int64_t allocator_ns = 0;

  std::int64_t num_compilations = 0;  // Modules loaded, kernels or graphs compiled.
  std::int64_t compilation_ns = 0;
  std::string longest_compilation;

  bool operator==(const HostFacts&) const = default;
};

/// Does a call or range of that name compile or load code? CUDA's module loading, NVRTC, the
/// driver's compiler, and what torch.compile's profiler ranges are called.
bool is_compilation(std::string_view name);

/// Never throws for what a trace may hold; all zero for a trace without steps.
HostFacts find_host_facts(const Trace& trace);

}  // namespace steplens
