#pragma once

#include <cstdint>
#include <string_view>

namespace steplens {

/// What this thread's backward pass is at, while an AutogradRanges lives.
struct OpenNode {
  bool is_open = false;
  std::string_view modules;   // Of the forward operator: "block 3/attention". Valid until the next.
  std::uint64_t version = 0;  // Changes whenever the others may.
};
OpenNode open_node();

/// Around a collective on the thread that carries it out, while an AutogradRanges with operators
/// lives: the trace then holds it as an operator "mpi::all-reduce". Pairs, on one thread.
void begin_collective_range(const char* name);
void end_collective_range();

/// While it lives, ranges also name what autograd runs: below "backward" each node of the backward
/// pass gets the modules under which its forward operator ran ("backward/block 3/attention"), found
/// by the node's sequence number. On a CPU, `with_operators` adds one range an outermost operator,
/// in the domain kOperatorDomainName.
///
/// NVTX only, like all ranges, so Nsight Systems shows the same. It costs time in
/// each node of the backward pass: for traces, never for throughput blocks. One at a time.
class AutogradRanges {
 public:
  explicit AutogradRanges(bool with_operators);
  ~AutogradRanges();
  AutogradRanges(const AutogradRanges&) = delete;
  AutogradRanges& operator=(const AutogradRanges&) = delete;

 private:
  std::uint64_t node_handle_ = 0, operator_handle_ = 0;
};

}  // namespace steplens
