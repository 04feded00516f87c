#include "workloads/fused/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/rms_norm/rms_norm.h"
#include "workloads/evidence.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Outputs: the stream and its norm. Without a branch the stream is x again: who reads on from that
// output hands its gradient to this backward, which adds it in the same pass.
struct FusedNorm : torch::autograd::Function<FusedNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x_in,
                               const std::optional<at::Tensor>& branch_in,
                               const at::Tensor& weight_C, double epsilon, std::int64_t type,
                               const DropoutSite& dropout) {
    const at::Tensor x_BTC = x_in.contiguous();
    const bool has_branch = branch_in.has_value();
    const at::Tensor branch_BTC = has_branch ? branch_in->contiguous() : at::Tensor();
    const std::int64_t num_channels = weight_C.numel();
    const std::int64_t num_rows = x_BTC.numel() / num_channels;
    const at::Tensor normed_BTC =
        at::empty_like(x_BTC, x_BTC.options().dtype(static_cast<at::ScalarType>(type)));
    const at::Tensor rstd_N = at::empty({num_rows}, x_BTC.options().dtype(at::kFloat));
    const at::Tensor stream_BTC = has_branch ? at::empty_like(x_BTC) : x_BTC;
    rms_norm_forward({.x = has_branch ? branch_BTC.data_ptr() : x_BTC.data_ptr(),
                      .residual = has_branch ? x_BTC.data_ptr() : nullptr,
                      .weight = weight_C.data_ptr(),
                      .r = has_branch ? stream_BTC.data_ptr() : nullptr,
                      .y = normed_BTC.data_ptr(),
                      .rstd = rstd_N.data_ptr<float>(),
                      .N = num_rows,
                      .C = num_channels,
                      .epsilon = static_cast<float>(epsilon),
                      .x_type = element_type_of(has_branch ? branch_BTC : x_BTC),
                      .stream_type = element_type_of(stream_BTC),
                      .y_type = element_type_of(normed_BTC),
                      .weight_type = element_type_of(weight_C),
                      .dropout = has_branch ? dropout.mask() : DropoutMask{}},
                     current_stream());
    count_event("fused_norms");
    context->set_materialize_grads(false);
    context->save_for_backward({stream_BTC, rstd_N, weight_C});
    context->saved_data["has_branch"] = has_branch;
    context->saved_data["probability"] = has_branch ? dropout.probability : 0.0;
    context->saved_data["seed"] = static_cast<std::int64_t>(dropout.seed);
    context->saved_data["call_index"] = static_cast<std::int64_t>(dropout.call_index);
    context->saved_data["step_index"] = dropout.step_index;
    context->saved_data["branch_type"] =
        static_cast<std::int64_t>(has_branch ? branch_BTC.scalar_type() : x_BTC.scalar_type());
    return {stream_BTC, normed_BTC};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& stream_BTC = saved[0];
    const at::Tensor& rstd_N = saved[1];
    const at::Tensor& weight_C = saved[2];
    const bool has_branch = context->saved_data["has_branch"].toBool();
    const auto branch_type =
        static_cast<at::ScalarType>(context->saved_data["branch_type"].toInt());
    TORCH_CHECK(gradients.back().defined(), "the norm's output has no gradient");
    const at::Tensor dy_BTC = gradients.back().contiguous();
    const at::Tensor past_norm_BTC =
        gradients.front().defined() ? gradients.front().contiguous() : at::Tensor();
    const std::int64_t num_channels = weight_C.numel();
    const std::int64_t num_rows = stream_BTC.numel() / num_channels;
    const at::Tensor dr_BTC = at::empty_like(stream_BTC);
    const DropoutSite dropout = {
        .probability = context->saved_data["probability"].toDouble(),
        .seed = static_cast<std::uint64_t>(context->saved_data["seed"].toInt()),
        .call_index = static_cast<std::uint32_t>(context->saved_data["call_index"].toInt()),
        .step_index = context->saved_data["step_index"].toTensor()};
    const bool has_own_dx =
        has_branch && (branch_type != stream_BTC.scalar_type() || dropout.drops());
    TORCH_CHECK(!has_own_dx || branch_type == dy_BTC.scalar_type(),
                "the branch's gradient has the type of the norm's output");
    const at::Tensor dx_BTC =
        has_own_dx ? at::empty_like(stream_BTC, stream_BTC.options().dtype(branch_type))
                   : at::Tensor();
    const at::Tensor dweight_C = at::empty({num_channels}, rstd_N.options());
    const at::Tensor workspace = at::empty(
        {static_cast<std::int64_t>(rms_norm_backward_workspace_bytes(num_rows, num_channels))},
        rstd_N.options().dtype(at::kByte));
    rms_norm_backward({.dy = dy_BTC.data_ptr(),
                       .r = stream_BTC.data_ptr(),
                       .rstd = rstd_N.data_ptr<float>(),
                       .weight = weight_C.data_ptr(),
                       .dr_in = pointer_of(past_norm_BTC),
                       .dr = dr_BTC.data_ptr(),
                       .dx = pointer_of(dx_BTC),
                       .dweight = dweight_C.data_ptr<float>(),
                       .workspace = workspace.data_ptr(),
                       .N = num_rows,
                       .C = num_channels,
                       .dy_type = element_type_of(dy_BTC),
                       .stream_type = element_type_of(stream_BTC),
                       .weight_type = element_type_of(weight_C),
                       .dropout = dropout.mask()},
                      current_stream());
    count_event("fused_norms");
    const at::Tensor dbranch_BTC = !has_branch ? at::Tensor() : has_own_dx ? dx_BTC : dr_BTC;
    variable_list result(6);  // One an argument of forward.
    result[0] = dr_BTC;
    result[1] = dbranch_BTC;
    result[2] = dweight_C;
    return result;
  }
};

}  // namespace

NormedStream fused_norm(const at::Tensor& x_BTC, const at::Tensor& branch_BTC,
                        const at::Tensor& weight_C, double epsilon, at::ScalarType type,
                        const DropoutSite& dropout) {
  const std::optional<at::Tensor> branch =
      branch_BTC.defined() ? std::optional(branch_BTC) : std::nullopt;
  const variable_list outputs =
      FusedNorm::apply(x_BTC, branch, weight_C, epsilon, static_cast<std::int64_t>(type), dropout);
  return {.stream_BTC = outputs.front(), .normed_BTC = outputs.back()};
}

}  // namespace steplens
