#include "workloads/fused/loss.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>

#include "harness/head_chunks.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "workloads/evidence.h"
#include "workloads/fused/gemm.h"
#include "workloads/fused/launch.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedHeadLoss : torch::autograd::Function<FusedHeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& h_BTC,
                            const at::Tensor& weight_in, const at::Tensor& targets_BT,
                            std::int64_t type_index, double factor, double gradient_scale,
                            bool is_final, Gemm gemm, std::int64_t max_rows) {
    const auto type = static_cast<at::ScalarType>(type_index);
    const at::Tensor h_NC = h_BTC.reshape({-1, h_BTC.size(-1)}).to(type).contiguous();
    const at::Tensor weight_VC = weight_in.to(type);
    const at::Tensor targets_N = targets_BT.reshape({-1}).contiguous();
    const std::int64_t num_rows = h_NC.size(0);
    const std::int64_t vocab_size = weight_VC.size(0);
    const RowChunks chunks = head_chunks(num_rows, max_rows);

    const at::Tensor losses_N = at::empty({num_rows}, h_NC.options().dtype(at::kFloat));
    const at::Tensor dh_NC = at::empty_like(h_NC);
    // Chunks are summed in fp32; all rows at once need no sum.
    const at::ScalarType sum_type =
        max_rows == 0 ? weight_in.scalar_type() : at::ScalarType(at::kFloat);
    at::Tensor dweight_VC = at::empty(weight_VC.sizes(), h_NC.options().dtype(sum_type));
    const at::Tensor buffer = at::empty({chunks.rows_per_chunk, vocab_size}, h_NC.options());
    for (std::int64_t i = 0; i < chunks.num_chunks; ++i) {
      const std::int64_t first = i * chunks.rows_per_chunk;
      const std::int64_t count = std::min(chunks.rows_per_chunk, num_rows - first);
      const at::Tensor h_chunk = h_NC.narrow(0, first, count);
      at::Tensor logits = buffer.narrow(0, 0, count);
      mm_out_by(gemm, logits, h_chunk, weight_VC.t());
      {
        const ScopedRange range("loss");
        cross_entropy({.logits = logits.data_ptr(),
                       .targets = targets_N.data_ptr<std::int64_t>() + first,
                       .losses = losses_N.data_ptr<float>() + first,
                       .scale = static_cast<float>(gradient_scale),
                       .N = count,
                       .V = vocab_size,
                       .type = element_type_of(type)},
                      current_stream());
      }
      count_event("fused_losses");
      at::Tensor dh_chunk = dh_NC.narrow(0, first, count);
      mm_out_by(gemm, dh_chunk, logits, weight_VC);
      mm_out_by(gemm, dweight_VC, logits.t(), h_chunk, /*is_added=*/i > 0);
    }
    context->save_for_backward({dh_NC.view(h_BTC.sizes()), dweight_VC});
    context->saved_data["h_type"] = static_cast<std::int64_t>(h_BTC.scalar_type());
    context->saved_data["weight_type"] = static_cast<std::int64_t>(weight_in.scalar_type());
    context->saved_data["is_final"] = is_final;
    const ScopedRange range("loss");
    return losses_N.sum().mul_(factor);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto type = [&](const char* name) {
      return static_cast<at::ScalarType>(context->saved_data[name].toInt());
    };
    const bool is_final = context->saved_data["is_final"].toBool();
    const auto finished = [&](const at::Tensor& values, at::ScalarType wanted) {
      if (is_final) return values.to(wanted);
      if (values.scalar_type() == wanted) return values.mul_(gradients.front());
      // One pass that also rounds.
      at::Tensor result = at::empty_like(values, values.options().dtype(wanted));
      return at::mul_out(result, values, gradients.front());
    };
    variable_list result(9);  // One an argument of forward.
    result[0] = finished(saved[0], type("h_type"));
    result[1] = finished(saved[1], type("weight_type"));
    return result;
  }
};

}  // namespace

at::Tensor fused_head_loss(const at::Tensor& h_BTC, const at::Tensor& weight_VC,
                           const at::Tensor& targets_BT, at::ScalarType type, Gemm gemm,
                           std::int64_t max_rows, const LossWeight& weight) {
  return FusedHeadLoss::apply(h_BTC, weight_VC, targets_BT, static_cast<std::int64_t>(type),
                              weight.factor, weight.factor * weight.root_gradient.value_or(1),
                              weight.root_gradient.has_value(), gemm, max_rows);
}

}  // namespace steplens
