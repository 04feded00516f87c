#include "workloads/fused/rope_attention.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/attention_backward.h"
#include "workloads/evidence.h"
#include "workloads/fused/launch.h"
#include "workloads/fused/rope.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The process's plans, one a shape and device: all tensors of fused_rope_attention have the strides
// that follow from the shape. Never destroyed: at exit the driver may be gone before they are.
struct AttentionPlans {
  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>,
           std::unique_ptr<AttentionBackward>>
      plans;
  std::mutex mutex;
};

void run_attention_backward(AttentionBackwardArgs args, const at::TensorOptions& options) {
  static auto* const all = new AttentionPlans;
  const std::scoped_lock lock(all->mutex);
  std::unique_ptr<AttentionBackward>& plan =
      all->plans[{options.device().index(), args.B, args.T, args.H, args.D}];
  if (!plan) plan = std::make_unique<AttentionBackward>(args);
  const at::Tensor workspace = at::empty({plan->workspace_bytes()}, options.dtype(at::kByte));
  args.workspace = workspace.data_ptr();
  plan->run(args, current_stream());
  count_event("attention_gradients_in_place");
}

struct FusedRopeAttention : torch::autograd::Function<FusedRopeAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv_BTC,
                            const at::Tensor& cos_TD, const at::Tensor& sin_TD,
                            std::int64_t num_heads) {
    const RopeShape shape = rope_shape(cos_TD, sin_TD, qkv_BTC.size(0), qkv_BTC.size(1), num_heads,
                                       num_heads, qkv_BTC.scalar_type());
    TORCH_CHECK(qkv_BTC.scalar_type() == at::kBFloat16);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const QkvHeads heads = rotate_in_place(qkv_BTC, shape);
    const auto result = at::_scaled_dot_product_cudnn_attention(
        heads.q_BHTD, heads.k_BKTD, heads.v_BKTD, {}, /*compute_log_sumexp=*/true,
        /*dropout_p=*/0.0, /*is_causal=*/true);
    const at::Tensor y_BTC =
        std::get<0>(result).transpose(1, 2).reshape({shape.B, shape.T, shape.H * shape.D});
    const at::Tensor log_sum_exp = std::get<1>(result).contiguous();
    TORCH_CHECK(log_sum_exp.scalar_type() == at::kFloat &&
                log_sum_exp.numel() == shape.B * shape.H * shape.T);
    context->save_for_backward({qkv_BTC, y_BTC, log_sum_exp, cos_TD, sin_TD});
    context->saved_data["num_heads"] = num_heads;
    return y_BTC;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& qkv_BTC = saved[0];
    const at::Tensor& y_BTC = saved[1];
    const std::int64_t num_heads = context->saved_data["num_heads"].toInt();
    const RopeShape shape = rope_shape(saved[3], saved[4], qkv_BTC.size(0), qkv_BTC.size(1),
                                       num_heads, num_heads, qkv_BTC.scalar_type());
    const at::Tensor dy_BTC = gradients.front().contiguous();
    TORCH_CHECK(dy_BTC.scalar_type() == at::kBFloat16);
    const auto rows = [&](const at::Tensor& x_BTC) {
      return heads_view(x_BTC.view({shape.B, shape.T, shape.H, shape.D}).transpose(1, 2));
    };
    const at::Tensor dqkv_BTC = at::empty(qkv_BTC.sizes(), qkv_BTC.options());
    void* const qkv = qkv_BTC.data_ptr();
    void* const dqkv = dqkv_BTC.data_ptr();
    const auto part = [&](void* data, QkvPart which) { return qkv_heads(data, which, shape); };
    const auto const_part = [&](const void* data, QkvPart which) {
      return qkv_heads(data, which, shape);
    };
    run_attention_backward({.B = shape.B,
                            .T = shape.T,
                            .H = shape.H,
                            .D = shape.D,
                            .q = const_part(qkv, QkvPart::kQ),
                            .k = const_part(qkv, QkvPart::kK),
                            .v = const_part(qkv, QkvPart::kV),
                            .y = rows(y_BTC),
                            .dy = rows(dy_BTC),
                            .log_sum_exp = saved[2].data_ptr<float>(),
                            .dq = part(dqkv, QkvPart::kQ),
                            .dk = part(dqkv, QkvPart::kK),
                            .dv = part(dqkv, QkvPart::kV)},
                           qkv_BTC.options());
    rope_qkv_backward({.shape = shape,
                       .dq = const_part(dqkv, QkvPart::kQ),
                       .dk = const_part(dqkv, QkvPart::kK),
                       .dv = const_part(dqkv, QkvPart::kV),
                       .dqkv = dqkv},
                      current_stream());
    count_event("fused_ropes");
    return {dqkv_BTC, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool takes_rope_attention(const RunConfig& config) {
  const ModelShape& shape = config.shape;
  return config.device == Device::kCuda && config.rope == Operators::kFused &&
         config.attention == Attention::kCudnn && config.precision == Precision::kBf16 &&
         config.batching == Batching::kPacked && config.sequence_length > 1 &&
         shape.num_heads == shape.num_kv_heads && shape.head_dim % 8 == 0 &&
         shape.head_dim <= 128 && AttentionBackward::is_available();
}

at::Tensor fused_rope_attention(const at::Tensor& qkv_BTC, const at::Tensor& cos_TD,
                                const at::Tensor& sin_TD, std::int64_t num_heads) {
  return FusedRopeAttention::apply(qkv_BTC, cos_TD, sin_TD, num_heads);
}

}  // namespace steplens
