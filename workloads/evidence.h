#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace steplens {

/// Counts of what really ran, by name; `evidence.counters` of a pilot's block.json, per optimizer
/// step. Toggles name these counters in their evidence rules:
///  - operator names as the dispatcher calls them ("aten::_fused_adamw_"), forward and backward;
///  - "operators": all of them, i.e. what the host dispatched while the steps ran;
///  - "matmuls_<dtype>": mm, addmm and bmm by the type of their operands (tf32: fp32 operands while
///    TF32 is allowed);
///  - "all_reduce_bytes": what a rank hands to its all-reduces; "all_reduces_<dtype>": their number
///    by type (fp32, bf16, fp16);
///  - what the step counts itself: "forward_passes", "block_forwards", "package_runs" (and
///    once a run "package_attention_<level>" and "package_precision_<level>", as the package's JSON
///    says that it was compiled: its operators go uncounted), "graph_replays", "loss_reads",
///    "padding_positions", "distinct_row_lengths", "loader_thread_batches", "pinned_copies",
///    "frozen_parameters", "injected_spins", "timing_events", "nvtx_ranges", "expandable_segments",
///    "bf16_parameters", "multi_tensor_updates", "all_reduces_after_backward", and per launch of a
///    fused operator's forward or backward pass "fused_norms", "fused_ropes", "fused_mlps",
///    "fused_losses", "fused_embedding_gradients"; "fused_residuals", "tuned_gemms" (in
///    "matmuls_..." too), "attention_gradients_in_place"; once a graph "graph_memsets_gathered" and
///    "_replaced".
/// Not exact about zero: a counter that is missing counts as 0.
using Counters = std::map<std::string, std::int64_t>;

/// Adds `count` to a counter of the step's own; cheap, always on, any thread.
void count_event(std::string_view counter, std::int64_t count = 1);

/// All counts of `count_event` since the process began.
Counters event_counts();

/// Listens to every operator of every thread while it lives. One at a time. Costs microseconds an
/// operator: pilots only, never throughput blocks.
class OperatorCounter {
 public:
  OperatorCounter();
  ~OperatorCounter();
  OperatorCounter(const OperatorCounter&) = delete;
  OperatorCounter& operator=(const OperatorCounter&) = delete;
  Counters counts() const;
  /// Bytes of each all-reduce, in the order of the calls.
  std::vector<std::int64_t> all_reduce_bytes() const;

 private:
  std::uint64_t handle_;
};

}  // namespace steplens
