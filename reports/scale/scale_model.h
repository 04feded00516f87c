#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/run_config.h"
#include "reports/breakdown/traced_arm.h"
#include "reports/scale/links.h"

/// What N GPUs would do, predicted from what one does and from the links between them.
///
/// A synchronising micro-step sends its buckets one after the other, each as soon as it is full: a
/// bucket starts when the part of the backward pass is over that fills it and the bucket before it
/// has arrived. What ends behind the backward pass is exposed and adds to the step; what lies
/// within it slows computation by the links' ratio. Gradients are divided by the number of ranks
/// once a synchronising micro-step, at memory bandwidth. Left out: ranks that wait for each other
/// because they are unequally fast, a loader or network that others share, failures.
namespace steplens {

/// Gradients that one all-reduce carries.
struct BucketPlan {
  std::int64_t bytes = 0;
  double ready_ratio = 1;  // Share of the backward pass after which it is full.
  bool operator==(const BucketPlan&) const = default;
};

/// One rank alone.
struct StepModel {
  double forward_ns = 0;   // A micro-step.
  double backward_ns = 0;  // A micro-step.
  double other_ns = 0;     // A step: clip, optimizer, data, and what no phase has.
  std::int64_t num_accumulation = 1;
  std::int64_t tokens_per_step = 0;  // Of the rank.
  std::vector<BucketPlan> buckets;   // In the order in which they are sent.

  double step_ns() const {
    return static_cast<double>(num_accumulation) * (forward_ns + backward_ns) + other_ns;
  }
};

struct ScalePoint {
  std::int64_t num_gpus = 1;
  double step_ns = 0;
  double communication_ns = 0;  // A step.
  double exposed_ns = 0;        // Of it.
  double tokens_per_s = 0;      // Of all GPUs.
  double efficiency_ratio = 1;  // Against that many GPUs that need not talk.
};

/// The buckets that c10d's Reducer makes of the model's gradients once it knows their order:
/// parameters last to first, a bucket closed as soon as it holds its limit (1 MiB for the first,
/// config.bucket_mb then). `block_backward_ns` etc.: how long the backward pass of each part took;
/// only their proportions matter.
struct BackwardParts {
  double head_ns = 0;            // Loss, head and last norm.
  std::vector<double> block_ns;  // By block, first to last.
  double embedding_ns = 0;
};
std::vector<BucketPlan> plan_buckets(const RunConfig& config, const BackwardParts& parts);

/// From an arm of one rank with a trace: its phases, stretched so that they sum to the step of the
/// blocks that were not traced. ConfigError if it was measured on several ranks, or if its trace
/// has no step, no forward or no backward pass.
StepModel step_model_of(const RunConfig& config, const TracedArm& arm);

/// The micro-batch of a rank stays as it is. `num_gpus` > 0.
ScalePoint predict(const StepModel& model, const Links& links, std::int64_t num_gpus, bool no_sync);

/// 1, 2, 4, ... up to `max_gpus`.
std::vector<std::int64_t> gpu_counts(std::int64_t max_gpus);

}  // namespace steplens
