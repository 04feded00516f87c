#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <nlohmann/json.hpp>

#include "harness/run_config.h"
#include "harness/trace/trace.h"

namespace steplens {

/// Records every allocation and free of the run's device, with the phase and the modules that were
/// open, and knows at any time what is live and whose it is. On a GPU segments of the cache too.
///
/// Owners: what `own` says; else activations for what forward and backward allocate, data for the
/// data phase, workspace for clip, optimizer and the rest of a step. `begin_window` knows more.
///
/// Make it before the first tensor of the run, on the thread that trains; autograd's threads and
/// loaders made by that thread are heard too. One at a time in a process. It takes microseconds an
/// allocation and no device memory.
class MemoryTracker {
 public:
  explicit MemoryTracker(const RunConfig& config);
  ~MemoryTracker();
  MemoryTracker(const MemoryTracker&) = delete;
  MemoryTracker& operator=(const MemoryTracker&) = delete;

  /// The memory of these tensors is `owner`'s, from its allocation on. Undefined tensors and memory
  /// that is not live are passed over.
  void own(const std::vector<at::Tensor>& tensors, MemoryOwner owner);

  /// Forgets all steps and begins anew with what is live, as allocations at this moment. What
  /// earlier steps left behind and nobody owns is workspace (buffers, library workspaces). What a
  /// graph's private pool holds is the graph pool's, except for what `own` named; so is its memory
  /// that the allocator counts as free, because each replay writes to it.
  void begin_window();

  /// `step_number`: of the run, warm-up included.
  void begin_step(std::int64_t step_number);
  void end_step();

  /// Records nothing from now on: what follows the steps (hashes, logs) is not theirs.
  void stop();

  /// Ranges, steps, allocations and the counter tracks "allocated", "reserved" and "driver_used"
  /// (B) since `begin_window`, or since the beginning without one. quality: "unmatched_frees" (of
  /// memory that was not known), "unseen_frees" (found out when the address was allocated again),
  /// "unrounded" (allocations with their requested size only), "account_error_bytes" (largest
  /// difference from the allocator's own total).
  Trace trace(const nlohmann::json& info) const;

 private:
  class Recorder;
  std::shared_ptr<Recorder> recorder_;
  std::optional<c10::DebugInfoGuard> guard_;
};

}  // namespace steplens
