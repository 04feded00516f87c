#include "workloads/fused/residual.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "workloads/evidence.h"
#include "workloads/fused/gemm.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ResidualLinear : torch::autograd::Function<ResidualLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& stream_N,
                            const at::Tensor& x_K, const at::Tensor& weight_in, std::int64_t gemm) {
    const at::Tensor stream_MN = rows_of(stream_N);
    const at::Tensor x_MK = rows_of(x_K);
    const at::Tensor weight_NK = weight_in.contiguous();
    at::Tensor sum_MN = at::empty_like(stream_MN);
    add_mm_out_by(static_cast<Gemm>(gemm), sum_MN, stream_MN, x_MK, weight_NK.t());
    count_event("fused_residuals");
    context->save_for_backward({x_MK, weight_NK});
    context->saved_data["gemm"] = gemm;
    context->saved_data["sizes"] = x_K.sizes().vec();
    return sum_MN.view_as(stream_N);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x_MK = saved[0];
    const at::Tensor& weight_NK = saved[1];
    const auto gemm = static_cast<Gemm>(context->saved_data["gemm"].toInt());
    const at::Tensor& dsum = gradients.front();
    const at::Tensor dy_MN = rows_of(dsum).to(x_MK.scalar_type());
    variable_list result(4);  // One an argument of forward.
    result[0] = dsum;
    if (context->needs_input_grad(1)) {
      at::Tensor dx_MK = at::empty_like(x_MK);
      mm_out_by(gemm, dx_MK, dy_MN, weight_NK);
      result[1] = dx_MK.view(context->saved_data["sizes"].toIntVector());
    }
    if (context->needs_input_grad(2)) {
      result[2] = at::empty_like(weight_NK);
      mm_out_by(gemm, result[2], dy_MN.t(), x_MK);
    }
    return result;
  }
};

}  // namespace

at::Tensor residual_linear(const at::Tensor& stream_N, const at::Tensor& x_K,
                           const at::Tensor& weight_NK, Gemm gemm) {
  const auto choice = static_cast<std::int64_t>(gemm);
  if (!at::autocast::is_autocast_enabled(at::kCUDA)) {
    return ResidualLinear::apply(stream_N, x_K, weight_NK, choice);
  }
  const at::ScalarType type = at::autocast::get_autocast_dtype(at::kCUDA);
  return ResidualLinear::apply(stream_N, at::autocast::cached_cast(type, x_K, at::kCUDA),
                               at::autocast::cached_cast(type, weight_NK, at::kCUDA), choice);
}

}  // namespace steplens
