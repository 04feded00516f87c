#include "workloads/multi_tensor_adamw.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "kernels/adamw/adamw.h"
#include "workloads/evidence.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

template <typename T>
at::Tensor to_device(const std::vector<T>& values, at::Device device) {
  return at::from_blob(const_cast<T*>(values.data()),
                       {static_cast<std::int64_t>(values.size() * sizeof(T))}, at::kByte)
      .to(device);
}

class MultiTensorAdamW final : public AdamW {
 public:
  MultiTensorAdamW(const RunConfig& config, const Model& model) : config_(config) {
    const c10::AutoGradMode no_grad(false);
    std::vector<AdamwTensor> tensors;
    for (const Parameter& parameter : model.parameters()) {
      if (!parameter.is_trained) continue;
      const at::Tensor& master = parameter.master;
      TORCH_CHECK(master.is_contiguous() && parameter.value.is_contiguous());
      parameters_.push_back(parameter.value);
      exp_avgs_.push_back(at::zeros_like(master));
      exp_avg_sqs_.push_back(at::zeros_like(master));
      if (parameter.has_master()) masters_.push_back(master);
      numels_.push_back(master.numel());
      tensors.push_back(
          {.parameter = master.data_ptr<float>(),
           .exp_avg = exp_avgs_.back().data_ptr<float>(),
           .exp_avg_sq = exp_avg_sqs_.back().data_ptr<float>(),
           .bf16_copy = parameter.has_master() ? parameter.value.data_ptr() : nullptr,
           .weight_decay = parameter.value.dim() >= 2 ? static_cast<float>(config.weight_decay) : 0,
           .gradient_type = element_type_of(parameter.value)});
    }
    const at::Device device = model.parameters().front().value.device();
    tensors_ = to_device(tensors, device);
    chunks_ = to_device(make_chunks(numels_), device);
    const at::TensorOptions options = at::TensorOptions(device).dtype(at::kFloat);
    step_count_ = at::zeros({}, options);
    norm_ = at::zeros({}, options);
    scalars_ =
        at::empty({static_cast<std::int64_t>(kAdamwWorkspaceBytes)}, options.dtype(at::kByte));
    partials_ =
        at::empty({static_cast<std::int64_t>(gradient_norm_workspace_bytes(numels_.size()))},
                  options.dtype(at::kByte));
  }

  at::Tensor clip(const std::vector<at::Tensor>& gradients, double max_norm) override {
    max_norm_ = max_norm;
    collect(gradients);
    gradient_norm({.table = table(),
                   .partials = static_cast<float*>(partials_.data_ptr()),
                   .norm = norm_.data_ptr<float>()},
                  current_stream());
    return norm_;
  }

  void step(const at::Tensor& learning_rate, double /*learning_rate_host*/,
            const at::Tensor& found_inf) override {
    adamw({.table = table(),
           .learning_rate = learning_rate.data_ptr<float>(),
           .grad_norm = norm_.data_ptr<float>(),
           .found_inf = static_cast<const float*>(pointer_of(found_inf)),
           .step_count = step_count_.data_ptr<float>(),
           .workspace = static_cast<float*>(scalars_.data_ptr()),
           .max_grad_norm = max_norm_,
           .beta1 = config_.beta1,
           .beta2 = config_.beta2,
           .epsilon = config_.epsilon},
          current_stream());
    count_event("multi_tensor_updates");
  }

  std::vector<at::Tensor> state() const override {
    std::vector<at::Tensor> result = exp_avgs_;
    result.insert(result.end(), exp_avg_sqs_.begin(), exp_avg_sqs_.end());
    result.insert(result.end(), masters_.begin(), masters_.end());
    for (const at::Tensor& tensor : {tensors_, chunks_, step_count_, norm_, scalars_, partials_}) {
      result.push_back(tensor);
    }
    return result;
  }

 private:
  void collect(const std::vector<at::Tensor>& gradients) {
    TORCH_CHECK(gradients.size() == parameters_.size());
    addresses_.clear();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      TORCH_CHECK(gradients[i].defined() && gradients[i].is_contiguous() &&
                      gradients[i].scalar_type() == parameters_[i].scalar_type(),
                  "gradient ", i, " is missing, has gaps or is of another type than its weight");
      addresses_.push_back(gradients[i].data_ptr());
    }
  }

  TensorTable table() const {
    return {.tensors = static_cast<const AdamwTensor*>(tensors_.data_ptr()),
            .chunks = static_cast<const TensorChunk*>(chunks_.data_ptr()),
            .numels = numels_,
            .gradients = addresses_};
  }

  RunConfig config_;
  std::vector<at::Tensor> parameters_, masters_, exp_avgs_, exp_avg_sqs_;
  std::vector<std::int64_t> numels_;
  std::vector<const void*> addresses_;  // Of this step's gradients.
  at::Tensor tensors_, chunks_;         // The table, as bytes.
  at::Tensor step_count_, norm_, scalars_, partials_;
  double max_norm_ = 0;
};

}  // namespace

std::unique_ptr<AdamW> make_multi_tensor_adamw(const RunConfig& config, const Model& model) {
  return std::make_unique<MultiTensorAdamW>(config, model);
}

}  // namespace steplens
