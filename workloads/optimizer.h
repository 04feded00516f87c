#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"
#include "workloads/model.h"

namespace steplens {

/// Loss scale of fp16 training, all of it on the device: scale, growth counter and the flag that a
/// gradient was not finite. For the other precisions `scale` is undefined and nothing is done.
/// Source: dynamic loss scaling, Micikevicius et al. 2018 (arXiv 1710.03740).
class LossScaler {
 public:
  explicit LossScaler(const RunConfig& config);
  bool is_active() const { return scale_.defined(); }
  const at::Tensor& scale() const { return scale_; }          // fp32 scalar.
  const at::Tensor& found_inf() const { return found_inf_; }  // fp32 scalar, 0 or 1.
  /// Divides the gradients by the scale in place and sets `found_inf`.
  void unscale(const std::vector<at::Tensor>& gradients);
  /// Halves the scale after an overflow, doubles it after 2,000 clean steps. Call once a step,
  /// last.
  void update();

 private:
  at::Tensor scale_, growth_, found_inf_;
};

/// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) over all trained parameters; decay on
/// matrices only. The levels differ in how it is launched, not in what it computes:
/// - loop: one operator a tensor, bias corrections and learning rate as host numbers;
/// - foreach: one operator for a list of tensors, corrections and learning rate on the device;
/// - fused: the whole update of a list in one kernel;
/// - multi_tensor: norm, clip and update in kernels of our own (workloads/multi_tensor_adamw.h).
/// Where weights are bf16, it is their fp32 masters that are updated, and then rounded.
class AdamW {
 public:
  virtual ~AdamW() = default;

  /// Limits the total L2 norm of the gradients of all trained parameters, in parameter order, to
  /// `max_norm` in the update that follows; returns the norm before that, an fp32 scalar on the
  /// device that the next call may overwrite. Whether it scales them in place or within the update,
  /// it decides.
  virtual at::Tensor clip(const std::vector<at::Tensor>& gradients, double max_norm);

  /// One update from the parameters' gradients. `learning_rate`: fp32 scalar on the device;
  /// `learning_rate_host` is the same value. `found_inf`: undefined, or 1 to skip the update.
  /// Without a host read where `is_capturable`.
  virtual void step(const at::Tensor& learning_rate, double learning_rate_host,
                    const at::Tensor& found_inf) = 0;

  /// Everything that it keeps from step to step: both moments of each parameter, masters of
  /// bf16 weights, and counts.
  virtual std::vector<at::Tensor> state() const = 0;
};
std::unique_ptr<AdamW> make_adamw(const RunConfig& config, const Model& model);

/// Gradients of the trained parameters, in parameter order.
std::vector<at::Tensor> gradients_of(const Model& model);

/// Scales all gradients in place so that their total L2 norm is at most `max_norm`; returns the
/// norm before that, an fp32 scalar on the device. No host read. Gradients of two types are
/// allowed.
at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm);

}  // namespace steplens
