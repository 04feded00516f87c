#include "workloads/dropout.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "workloads/evidence.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor masked(const at::Tensor& x_in, const DropoutMask& mask) {
  const at::Tensor x = x_in.contiguous();
  const at::Tensor y = at::empty_like(x);
  const DropoutArgs args = {.x = x.data_ptr(),
                            .y = y.data_ptr(),
                            .count = x.numel(),
                            .mask = mask,
                            .type = element_type_of(x)};
  if (x.is_cuda()) {
    dropout(args, current_stream());
  } else {
    dropout_on_host(args);
  }
  count_event("dropouts");
  return y;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const DropoutSite& site) {
    context->saved_data["probability"] = site.probability;
    context->saved_data["seed"] = static_cast<std::int64_t>(site.seed);
    context->saved_data["call_index"] = static_cast<std::int64_t>(site.call_index);
    context->saved_data["step_index"] = site.step_index;
    return masked(x, site.mask());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto number = [&](const char* name) { return context->saved_data[name].toInt(); };
    const DropoutSite site = {.probability = context->saved_data["probability"].toDouble(),
                              .seed = static_cast<std::uint64_t>(number("seed")),
                              .call_index = static_cast<std::uint32_t>(number("call_index")),
                              .step_index = context->saved_data["step_index"].toTensor()};
    return {masked(gradients.front(), site.mask()), at::Tensor()};  // One an argument of forward.
  }
};

}  // namespace

DropoutMask DropoutSite::mask() const {
  return {.probability = probability,
          .seed = seed,
          .step = step_index.defined() ? step_index.data_ptr<std::int64_t>() : nullptr,
          .call_index = call_index};
}

at::Tensor drop_out(const at::Tensor& x, const DropoutSite& site) {
  if (!site.drops()) return x;
  return Dropout::apply(x, site);
}

}  // namespace steplens
