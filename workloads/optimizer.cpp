#include "workloads/optimizer.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "harness/error.h"
#include "workloads/multi_tensor_adamw.h"

namespace steplens {
namespace {

// Parameters that share a weight decay, with their moments.
struct Group {
  std::vector<at::Tensor> parameters;  // fp32: what is updated.
  std::vector<at::Tensor> values;      // What has the gradients: the same, or bf16.
  std::vector<at::Tensor> exp_avgs, exp_avg_sqs;
  std::vector<at::Tensor> masters, rounded;  // Those of the above that differ.
  double weight_decay = 0;

  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> result;
    result.reserve(values.size());
    for (const at::Tensor& value : values) result.push_back(value.grad().to(at::kFloat));
    return result;
  }
  // After an update of the masters.
  void round() const {
    if (!masters.empty()) at::_foreach_copy_(rounded, masters);
  }
};

std::vector<Group> make_groups(const RunConfig& config, const Model& model) {
  std::vector<Group> groups(2);
  groups[0].weight_decay = config.weight_decay;
  const c10::AutoGradMode no_grad(false);
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.is_trained) continue;
    Group& group = groups[parameter.value.dim() >= 2 ? 0 : 1];
    group.parameters.push_back(parameter.master);
    group.values.push_back(parameter.value);
    group.exp_avgs.push_back(at::zeros_like(parameter.master));
    group.exp_avg_sqs.push_back(at::zeros_like(parameter.master));
    if (parameter.has_master()) {
      group.masters.push_back(parameter.master);
      group.rounded.push_back(parameter.value);
    }
  }
  return groups;
}

std::vector<at::Tensor> state_of(const std::vector<Group>& groups) {
  std::vector<at::Tensor> result;
  for (const Group& group : groups) {
    result.insert(result.end(), group.exp_avgs.begin(), group.exp_avgs.end());
    result.insert(result.end(), group.exp_avg_sqs.begin(), group.exp_avg_sqs.end());
    result.insert(result.end(), group.masters.begin(), group.masters.end());
  }
  return result;
}

// GradScaler in Python reads the flag on the host too unless the optimizer is fused.
bool must_skip(const at::Tensor& found_inf) {
  return found_inf.defined() && found_inf.item<float>() != 0;
}

class LoopAdamW final : public AdamW {
 public:
  LoopAdamW(const RunConfig& config, const Model& model)
      : config_(config),
        groups_(make_groups(config, model)) {}

  void step(const at::Tensor& /*learning_rate*/, double learning_rate_host,
            const at::Tensor& found_inf) override {
    const c10::AutoGradMode no_grad(false);
    if (must_skip(found_inf)) return;
    ++step_count_;
    const double correction1 = 1 - std::pow(config_.beta1, static_cast<double>(step_count_));
    const double correction2 = 1 - std::pow(config_.beta2, static_cast<double>(step_count_));
    for (Group& group : groups_) {
      for (std::size_t i = 0; i < group.parameters.size(); ++i) {
        const at::Tensor gradient = group.values[i].grad().to(at::kFloat);
        group.parameters[i].mul_(1 - learning_rate_host * group.weight_decay);
        group.exp_avgs[i].lerp_(gradient, 1 - config_.beta1);
        group.exp_avg_sqs[i].mul_(config_.beta2).addcmul_(gradient, gradient, 1 - config_.beta2);
        const at::Tensor denominator =
            (group.exp_avg_sqs[i].sqrt() / std::sqrt(correction2)).add_(config_.epsilon);
        group.parameters[i].addcdiv_(group.exp_avgs[i], denominator,
                                     -learning_rate_host / correction1);
      }
      group.round();
    }
  }

  std::vector<at::Tensor> state() const override { return state_of(groups_); }

 private:
  RunConfig config_;
  std::vector<Group> groups_;
  std::int64_t step_count_ = 0;
};

class ForeachAdamW final : public AdamW {
 public:
  ForeachAdamW(const RunConfig& config, const Model& model)
      : config_(config),
        groups_(make_groups(config, model)),
        step_count_(at::zeros({}, model.parameters().front().master.options())) {}

  void step(const at::Tensor& learning_rate, double /*learning_rate_host*/,
            const at::Tensor& found_inf) override {
    const c10::AutoGradMode no_grad(false);
    if (must_skip(found_inf)) return;
    step_count_.add_(1);
    // As tensors, so that a captured step keeps counting.
    const at::Tensor correction1 = 1 - at::pow(at::Scalar(config_.beta1), step_count_);
    const at::Tensor correction2_sqrt =
        (1 - at::pow(at::Scalar(config_.beta2), step_count_)).sqrt_();
    const at::Tensor negative_step_size = learning_rate.neg() / correction1;
    for (Group& group : groups_) {
      if (group.parameters.empty()) continue;
      const std::vector<at::Tensor> gradients = group.gradients();
      if (group.weight_decay != 0) {
        at::_foreach_mul_(group.parameters, 1 - learning_rate * group.weight_decay);
      }
      at::_foreach_lerp_(group.exp_avgs, gradients, 1 - config_.beta1);
      at::_foreach_mul_(group.exp_avg_sqs, config_.beta2);
      at::_foreach_addcmul_(group.exp_avg_sqs, gradients, gradients, 1 - config_.beta2);
      const std::vector<at::Tensor> denominators = at::_foreach_sqrt(group.exp_avg_sqs);
      at::_foreach_div_(denominators, correction2_sqrt);
      at::_foreach_add_(denominators, config_.epsilon);
      // The step size is a tensor, which addcdiv does not take: fold it into the denominator.
      at::_foreach_div_(denominators, negative_step_size);
      at::_foreach_addcdiv_(group.parameters, group.exp_avgs, denominators);
      group.round();
    }
  }

  std::vector<at::Tensor> state() const override {
    std::vector<at::Tensor> result = state_of(groups_);
    result.push_back(step_count_);
    return result;
  }

 private:
  RunConfig config_;
  std::vector<Group> groups_;
  at::Tensor step_count_;
};

class FusedAdamW final : public AdamW {
 public:
  FusedAdamW(const RunConfig& config, const Model& model)
      : config_(config),
        groups_(make_groups(config, model)) {
    for (const Group& group : groups_) {
      std::vector<at::Tensor>& counts = step_counts_.emplace_back();
      for (const at::Tensor& parameter : group.parameters) {
        counts.push_back(at::zeros({}, parameter.options()));
      }
    }
  }

  void step(const at::Tensor& learning_rate, double /*learning_rate_host*/,
            const at::Tensor& found_inf) override {
    const c10::AutoGradMode no_grad(false);
    const std::optional<at::Tensor> skip =
        found_inf.defined() ? std::optional(found_inf) : std::nullopt;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Group& group = groups_[i];
      if (group.parameters.empty()) continue;
      at::_foreach_add_(step_counts_[i], 1);
      at::_fused_adamw_(group.parameters, group.gradients(), group.exp_avgs, group.exp_avg_sqs, {},
                        step_counts_[i], learning_rate, config_.beta1, config_.beta2,
                        group.weight_decay, config_.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                        /*grad_scale=*/{}, skip);
      // The kernel skipped the update on overflow; the step must not count either.
      if (skip) {
        at::_foreach_sub_(step_counts_[i], std::vector<at::Tensor>(step_counts_[i].size(), *skip));
      }
      group.round();
    }
  }

  std::vector<at::Tensor> state() const override {
    std::vector<at::Tensor> result = state_of(groups_);
    for (const std::vector<at::Tensor>& counts : step_counts_) {
      result.insert(result.end(), counts.begin(), counts.end());
    }
    return result;
  }

 private:
  RunConfig config_;
  std::vector<Group> groups_;
  std::vector<std::vector<at::Tensor>> step_counts_;
};

}  // namespace

LossScaler::LossScaler(const RunConfig& config) {
  if (config.precision != Precision::kFp16) return;
  const at::TensorOptions options =
      at::TensorOptions(config.device == Device::kCuda ? at::kCUDA : at::kCPU).dtype(at::kFloat);
  scale_ = at::full({}, 65536.0, options);  // 2^16: PyTorch's start.
  growth_ = at::zeros({}, options.dtype(at::kInt));
  found_inf_ = at::zeros({}, options);
}

void LossScaler::unscale(const std::vector<at::Tensor>& gradients) {
  if (!is_active()) return;
  found_inf_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, scale_.reciprocal());
}

void LossScaler::update() {
  if (!is_active()) return;
  at::_amp_update_scale_(scale_, growth_, found_inf_, /*scale_growth_factor=*/2.0,
                         /*scale_backoff_factor=*/0.5, /*growth_interval=*/2000);
}

at::Tensor AdamW::clip(const std::vector<at::Tensor>& gradients, double max_norm) {
  return clip_gradients(gradients, max_norm);
}

std::unique_ptr<AdamW> make_adamw(const RunConfig& config, const Model& model) {
  switch (config.optimizer) {
    case Optimizer::kLoop: return std::make_unique<LoopAdamW>(config, model);
    case Optimizer::kForeach: return std::make_unique<ForeachAdamW>(config, model);
    case Optimizer::kFused: return std::make_unique<FusedAdamW>(config, model);
    case Optimizer::kMultiTensor: return make_multi_tensor_adamw(config, model);
  }
  SL_CHECK(false);
  return nullptr;
}

std::vector<at::Tensor> gradients_of(const Model& model) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(model.parameters().size());
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.is_trained) gradients.push_back(parameter.value.grad());
  }
  return gradients;
}

at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm) {
  const c10::AutoGradMode no_grad(false);
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2.0, at::kFloat)).norm();
  const at::Tensor coefficient = (max_norm / (norm + 1e-6)).clamp_max_(1.0);
  at::_foreach_mul_(gradients, coefficient);
  return norm;
}

}  // namespace steplens
