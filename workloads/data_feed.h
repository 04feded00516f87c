#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "harness/run_config.h"
#include "workloads/catalog/batcher.h"
#include "workloads/train_step.h"

namespace steplens {

/// A step's batch on the device, and what it holds.
struct FedStep {
  DeviceStep step;
  std::int64_t num_positions = 0;
  std::int64_t num_valid_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  std::int64_t wait_ns = 0;  // Host time from asking for the batch to having it enqueued.
};

/// The next optimizer step's batch, in order. Ends with the process or when destroyed.
class DataFeed {
 public:
  virtual ~DataFeed() = default;
  virtual FedStep next() = 0;
};

/// Makes batch number `index` (0, 1, 2, ...); called from one thread at a time.
using BatchSource = std::function<StepBatch(std::int64_t index)>;

/// The levels of the toggle `data`:
/// - sync: the caller makes the batch and copies it from pageable memory;
/// - prefetch: a thread makes batches ahead; the caller copies from pageable memory;
/// - pinned (CUDA only): a thread fills page-locked slots ahead, and the next step's copy runs on a
///   stream of its own while this step computes.
/// On a CPU there is no copy. `num_steps`: how many batches the source can make. Errors of the
/// source are thrown by `next`.
std::unique_ptr<DataFeed> make_data_feed(const RunConfig& config, BatchSource source,
                                         std::int64_t num_steps);

}  // namespace steplens
