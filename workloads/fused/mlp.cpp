#include "workloads/fused/mlp.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/swiglu/swiglu.h"
#include "workloads/evidence.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedSwiglu : torch::autograd::Function<FusedSwiglu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up_in) {
    const at::Tensor gate_up = gate_up_in.contiguous();
    std::vector<std::int64_t> sizes = gate_up.sizes().vec();
    sizes.back() /= 2;
    const at::Tensor y = at::empty(sizes, gate_up.options());
    swiglu_forward({.gate_up = gate_up.data_ptr(),
                    .y = y.data_ptr(),
                    .N = y.numel() / sizes.back(),
                    .F = sizes.back(),
                    .type = element_type_of(gate_up)},
                   current_stream());
    count_event("fused_mlps");
    context->save_for_backward({gate_up});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gate_up = context->get_saved_variables().front();
    const at::Tensor dy = gradients.front().contiguous();
    TORCH_CHECK(dy.scalar_type() == gate_up.scalar_type());
    const at::Tensor dgate_up = at::empty_like(gate_up);
    const std::int64_t width = gate_up.size(-1) / 2;
    swiglu_backward({.dy = dy.data_ptr(),
                     .gate_up = gate_up.data_ptr(),
                     .dgate_up = dgate_up.data_ptr(),
                     .N = dy.numel() / width,
                     .F = width,
                     .type = element_type_of(gate_up)},
                    current_stream());
    count_event("fused_mlps");
    return {dgate_up};
  }
};

}  // namespace

at::Tensor fused_swiglu(const at::Tensor& gate_up) { return FusedSwiglu::apply(gate_up); }

}  // namespace steplens
