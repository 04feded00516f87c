#include "workloads/train_step.h"

#include <chrono>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "harness/error.h"
#include "workloads/autocast.h"
#include "workloads/catalog/lr_schedule.h"
#include "workloads/evidence.h"
#include "workloads/ranges.h"
#include "workloads/spin.h"

namespace steplens {
namespace {

at::TensorOptions device_options(const RunConfig& config) {
  return at::TensorOptions(config.device == Device::kCuda ? at::kCUDA : at::kCPU);
}

}  // namespace

StepLog::StepLog(const RunConfig& config, std::int64_t max_steps)
    : log_(at::zeros({max_steps, 3}, device_options(config).dtype(at::kFloat))),
      row_index_(at::zeros({1}, device_options(config).dtype(at::kLong))) {}

void StepLog::append(const at::Tensor& loss, const at::Tensor& grad_norm,
                     const at::Tensor& learning_rate) {
  const c10::AutoGradMode no_grad(false);
  log_.index_copy_(0, row_index_,
                   at::stack({loss.reshape({}), grad_norm.reshape({}), learning_rate.reshape({})})
                       .to(at::kFloat)
                       .unsqueeze(0));
  row_index_.add_(1);
}

std::vector<std::vector<double>> StepLog::rows(std::int64_t num_steps) const {
  const at::Tensor host = log_.narrow(0, 0, num_steps).to(at::kCPU).to(at::kDouble).contiguous();
  const double* values = host.const_data_ptr<double>();
  std::vector<std::vector<double>> result;
  for (std::int64_t i = 0; i < num_steps; ++i) {
    result.emplace_back(values + 3 * i, values + 3 * (i + 1));
  }
  return result;
}

TrainStep::TrainStep(const RunConfig& config, std::int64_t max_steps)
    : config_(config),
      model_(config),
      compiled_(config.compile == Compile::kAoti ? std::make_unique<CompiledPass>(config)
                                                 : nullptr),
      scaler_(config),
      optimizer_(make_adamw(config, model_)),
      log_(config, max_steps) {
  std::vector<float> rates;
  for (std::int64_t i = 0; i < max_steps; ++i) {
    rates.push_back(static_cast<float>(learning_rate_at(config, i)));
  }
  schedule_ = at::from_blob(rates.data(), {max_steps}, at::kFloat)
                  .clone()
                  .to(device_options(config).device());
  step_index_ = at::zeros({1}, device_options(config).dtype(at::kLong));
}

std::optional<double> TrainStep::root_gradient() const {
  if (scaler_.is_active()) return std::nullopt;
  // Ranks are averaged, and the loss's weight divides by the tokens of all of them already.
  return sync_ == nullptr ? 1.0 : static_cast<double>(config_.world_size);
}

at::Tensor TrainStep::run_pass(const DeviceMicroBatch& micro, double weight, bool is_last) {
  at::Tensor loss;
  {
    const ScopedRange forward("forward");
    const AutocastScope autocast(autocast_mode(config_));
    if (sync_ != nullptr) sync_->before_forward(is_last);
    loss = model_.loss_sum(micro.tokens_BT, micro.targets_BT,
                           {.factor = weight, .root_gradient = root_gradient()});
  }
  const ScopedRange backward("backward");
  at::Tensor root = loss;
  if (sync_ != nullptr) {
    sync_->before_backward(is_last);
    root = root * static_cast<double>(config_.world_size);
  }
  if (scaler_.is_active()) root = root * scaler_.scale();
  root.backward();
  return loss.detach();
}

at::Tensor TrainStep::run_compiled_pass(const DeviceMicroBatch& micro, double weight) {
  // One call: where forward ends and backward begins only the kernels' names say.
  const ScopedRange forward("forward");
  const ScopedRange compiled("compiled");
  const c10::AutoGradMode no_grad(false);
  at::Tensor scale = at::full({}, weight, device_options(config_).dtype(at::kFloat));
  if (scaler_.is_active()) scale = scale * scaler_.scale();
  return compiled_->run(model_, micro.tokens_BT, micro.targets_BT, scale) * weight;
}

at::Tensor TrainStep::accumulate(const DeviceStep& step) {
  SL_CHECK(step.num_loss_tokens > 0);
  const double weight = 1.0 / static_cast<double>(step.num_loss_tokens);
  at::Tensor total;
  for (std::size_t i = 0; i < step.micro_batches.size(); ++i) {
    const DeviceMicroBatch& micro = step.micro_batches[i];
    const bool is_last = i + 1 == step.micro_batches.size();
    const ScopedRange micro_step("micro-step");
    model_.begin_pass(step_index_, static_cast<std::int64_t>(i));
    const at::Tensor loss =
        compiled_ ? run_compiled_pass(micro, weight) : run_pass(micro, weight, is_last);
    const ScopedRange other("other");
    if (config_.sync_every_micro_step) {
      // What a training loop that prints its loss does: wait for the device and read one number.
      count_event("loss_reads");
      static_cast<void>(loss.item<float>());
    }
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

void TrainStep::run(const DeviceStep& step) {
  reset_gradients();
  const at::Tensor loss = accumulate(step);
  at::Tensor grad_norm;
  {
    const ScopedRange clip("clip");
    const std::vector<at::Tensor> gradients = gradients_of(model_);
    scaler_.unscale(gradients);
    grad_norm = optimizer_->clip(gradients, config_.max_grad_norm);
  }
  at::Tensor learning_rate;
  {
    const ScopedRange optimizer("optimizer");
    learning_rate = schedule_.index_select(0, step_index_).reshape({});
    optimizer_->step(learning_rate, learning_rate_at(config_, host_step_index_),
                     scaler_.found_inf());
    scaler_.update();
  }
  ++host_step_index_;
  const ScopedRange other("other");
  log_.append(loss, grad_norm, learning_rate);
  {
    const c10::AutoGradMode no_grad(false);
    step_index_.add_(1);
  }
  if (config_.injected_spin_ns > 0) {
    count_event("injected_spins");
    spin(config_.device, config_.injected_spin_ns);
  }
}

void TrainStep::reset_gradients() {
  std::vector<at::Tensor> kept;
  for (const Parameter& parameter : model_.parameters()) {
    if (!parameter.is_trained) continue;
    at::Tensor& gradient = at::Tensor(parameter.value).mutable_grad();
    if (sync_ == nullptr) {
      gradient.reset();
    } else if (gradient.defined()) {
      kept.push_back(gradient);
    }
  }
  if (kept.empty()) return;
  const c10::AutoGradMode no_grad(false);
  at::_foreach_zero_(kept);
}

}  // namespace steplens
