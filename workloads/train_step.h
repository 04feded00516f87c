#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"
#include "workloads/compiled/compiled_pass.h"
#include "workloads/gradient_sync.h"
#include "workloads/model.h"
#include "workloads/optimizer.h"

namespace steplens {

/// One micro-batch on the run's device.
struct DeviceMicroBatch {
  at::Tensor tokens_BT;   // int64.
  at::Tensor targets_BT;  // int64; -100 where nothing is predicted.
};

/// The micro-batches of one optimizer step.
struct DeviceStep {
  std::vector<DeviceMicroBatch> micro_batches;
  std::int64_t num_loss_tokens = 0;  // Over all micro-batches and ranks: the loss's denominator.
};

/// Loss, gradient norm and learning rate of every step, kept on the device until asked for, so that
/// recording them waits for nothing and works inside a captured graph.
class StepLog {
 public:
  StepLog(const RunConfig& config, std::int64_t max_steps);
  /// Appends one row; the row index lives on the device too.
  void append(const at::Tensor& loss, const at::Tensor& grad_norm, const at::Tensor& learning_rate);
  /// The rows so far as doubles, (num_steps, 3): loss, grad_norm, lr. Waits for the device.
  std::vector<std::vector<double>> rows(std::int64_t num_steps) const;

 private:
  at::Tensor log_, row_index_;
};

/// One optimizer step: forward and backward of every micro-batch, one clip, AdamW, schedule.
///
/// The loss is the sum of all token losses / the number of predicted tokens of the whole step, so
/// micro-batches with unequal token counts weigh what they should. The learning rate is looked up
/// on the device by a step count that lives there, so a captured step moves along the schedule.
/// Nothing here reads from the device, except where the config asks for it
/// (sync_every_micro_step, fp16 without the fused optimizer).
///
/// With several ranks each runs its share of every micro-batch. The loss that is logged is then
/// this rank's part of the sum; gradient norm, clip and update are those of the whole gradient.
class TrainStep {
 public:
  /// `max_steps`: the most steps that will be run, warm-up included.
  TrainStep(const RunConfig& config, std::int64_t max_steps);

  /// From the next step on, gradients are summed over config.world_size ranks by `sync`, which must
  /// outlive this.
  void synchronize_with(GradientSync& sync) { sync_ = &sync; }

  /// Enqueues (CUDA) or computes (CPU) one step.
  void run(const DeviceStep& step);

  /// Gradients become undefined: the next backward pass allocates them anew. With several ranks
  /// they become zero where they are, because they are views of what is sent.
  void reset_gradients();

  /// The host counts steps too, for what takes host numbers. A replayed graph counts 1 by this, a
  /// capture, which runs nothing, takes its 1 back.
  void count_replayed_step(std::int64_t count = 1) { host_step_index_ += count; }

  const Model& model() const { return model_; }
  const AdamW& optimizer() const { return *optimizer_; }
  const StepLog& log() const { return log_; }
  /// The package that it runs; nullptr if compile=off.
  const CompiledPass* compiled() const { return compiled_.get(); }

 private:
  at::Tensor accumulate(const DeviceStep& step);
  // Of a micro-batch's loss, which autograd hands to Model::loss_sum; absent: known on the device.
  std::optional<double> root_gradient() const;
  at::Tensor run_pass(const DeviceMicroBatch& micro, double weight, bool is_last);
  at::Tensor run_compiled_pass(const DeviceMicroBatch& micro, double weight);

  RunConfig config_;
  GradientSync* sync_ = nullptr;  // Null with one rank.
  Model model_;
  std::unique_ptr<CompiledPass> compiled_;
  LossScaler scaler_;
  std::unique_ptr<AdamW> optimizer_;
  StepLog log_;
  at::Tensor schedule_;    // fp32 (max_steps): learning rate by step.
  at::Tensor step_index_;  // int64 (1), on the device.
  std::int64_t host_step_index_ = 0;
};

}  // namespace steplens
