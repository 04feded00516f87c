#include "workloads/checkpoint.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "workloads/model.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass needs besides tensors, in the form in which autograd keeps objects.
struct BlockCall : torch::CustomClassHolder {
  const Model* model = nullptr;
  std::size_t layer_index = 0;
  AutocastMode mode;
};

struct CheckpointedBlock : torch::autograd::Function<CheckpointedBlock> {
  static at::Tensor forward(AutogradContext* context, const c10::intrusive_ptr<BlockCall>& call,
                            const at::Tensor& x_BTC, at::TensorList weights) {
    variable_list saved = {x_BTC};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    const at::AutoGradMode no_grad(false);
    return call->model->block(call->layer_index, {.x_BTC = x_BTC}, weights).sum();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto call =
        c10::static_intrusive_pointer_cast<BlockCall>(context->saved_data["call"].toCapsule());
    variable_list inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach().requires_grad_(true));
    }
    const at::AutoGradMode grad(true);
    at::Tensor output;
    {
      const AutocastScope autocast(call->mode);
      const variable_list weights(inputs.begin() + 1, inputs.end());
      output = call->model->block(call->layer_index, {.x_BTC = inputs.front()}, weights).sum();
    }
    variable_list result = torch::autograd::grad({output}, inputs, gradients);
    result.insert(result.begin(), at::Tensor());  // `call` has no gradient.
    return result;
  }
};

}  // namespace

at::Tensor checkpointed_block(const Model& model, std::size_t layer_index, const AutocastMode& mode,
                              const at::Tensor& x_BTC, const std::vector<at::Tensor>& weights) {
  auto call = c10::make_intrusive<BlockCall>();
  call->model = &model;
  call->layer_index = layer_index;
  call->mode = mode;
  return CheckpointedBlock::apply(call, x_BTC, at::TensorList(weights));
}

}  // namespace steplens
