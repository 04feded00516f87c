#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"
#include "workloads/gradient_sync.h"
#include "workloads/parallel/world.h"

namespace steplens {

/// c10d's Reducer as PyTorch's DistributedDataParallel drives it: gradients become views of
/// buckets of at most config.bucket_mb MiB (the first 1 MiB), and each bucket is all-reduced while
/// the backward pass goes on. The first step has one bucket; buckets are rebuilt before the second
/// forward pass, in the order in which gradients arrived.
///
/// With config.comm_dtype other than fp32 gradients travel in that type; with config.overlap off
/// all buckets leave behind the backward pass.
///
/// With config.no_sync only the last micro-step of a step synchronises; the others add their
/// gradients locally.
class GradientReducer final : public GradientSync {
 public:
  /// Sends rank 0's `parameters` to all ranks, in place, and hooks onto them. They and `world` must
  /// outlive it.
  GradientReducer(const RunConfig& config, std::vector<at::Tensor> parameters, World& world);
  ~GradientReducer() override;

  void before_forward(bool is_last) override;
  void before_backward(bool is_last) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
  bool no_sync_;
};

}  // namespace steplens
