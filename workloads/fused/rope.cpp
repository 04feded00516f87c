#include "workloads/fused/rope.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/rope/rope.h"
#include "workloads/evidence.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedRope : torch::autograd::Function<FusedRope> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv_BTC,
                               const at::Tensor& cos_TD, const at::Tensor& sin_TD,
                               std::int64_t num_heads, std::int64_t num_kv_heads) {
    const RopeShape shape = rope_shape(cos_TD, sin_TD, qkv_BTC.size(0), qkv_BTC.size(1), num_heads,
                                       num_kv_heads, qkv_BTC.scalar_type());
    // To autograd these are new tensors, no views: the input's old values are nobody's.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const QkvHeads heads = rotate_in_place(qkv_BTC, shape);
    context->set_materialize_grads(false);
    context->save_for_backward({cos_TD, sin_TD});
    context->saved_data["num_heads"] = num_heads;
    context->saved_data["num_kv_heads"] = num_kv_heads;
    context->saved_data["type"] = static_cast<std::int64_t>(qkv_BTC.scalar_type());
    context->saved_data["num_rows"] = shape.B;
    context->saved_data["length"] = shape.T;
    return {heads.q_BHTD, heads.k_BKTD, heads.v_BKTD};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto number = [&](const char* name) { return context->saved_data[name].toInt(); };
    const auto type = static_cast<at::ScalarType>(number("type"));
    const RopeShape shape = rope_shape(saved[0], saved[1], number("num_rows"), number("length"),
                                       number("num_heads"), number("num_kv_heads"), type);
    for (const at::Tensor& gradient : gradients) {
      TORCH_CHECK(gradient.defined() && gradient.scalar_type() == type,
                  "q, k and v need gradients of their type");
    }
    const at::Tensor dqkv_BTC = at::empty({shape.B, shape.T, (shape.H + 2 * shape.Hkv) * shape.D},
                                          saved[0].options().dtype(type));
    rope_qkv_backward({.shape = shape,
                       .dq = heads_view(gradients[0]),
                       .dk = heads_view(gradients[1]),
                       .dv = heads_view(gradients[2]),
                       .dqkv = dqkv_BTC.data_ptr()},
                      current_stream());
    count_event("fused_ropes");
    return {dqkv_BTC, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RopeShape rope_shape(const at::Tensor& cos_TD, const at::Tensor& sin_TD, std::int64_t num_rows,
                     std::int64_t length, std::int64_t num_heads, std::int64_t num_kv_heads,
                     at::ScalarType type) {
  TORCH_CHECK(cos_TD.size(0) >= length && cos_TD.scalar_type() == at::kFloat);
  return {.B = num_rows,
          .T = length,
          .H = num_heads,
          .Hkv = num_kv_heads,
          .D = cos_TD.size(1),
          .cos = cos_TD.data_ptr<float>(),
          .sin = sin_TD.data_ptr<float>(),
          .table_stride = cos_TD.stride(0),
          .type = element_type_of(type)};
}

QkvHeads rotate_in_place(const at::Tensor& qkv_BTC, const RopeShape& shape) {
  TORCH_CHECK(qkv_BTC.is_contiguous());
  void* const data = qkv_BTC.data_ptr();
  rope_qkv_forward({.shape = shape,
                    .qkv = data,
                    .q = qkv_heads(data, QkvPart::kQ, shape),
                    .k = qkv_heads(data, QkvPart::kK, shape)},
                   current_stream());
  count_event("fused_ropes");
  const auto part = [&](std::int64_t first_head, std::int64_t count) {
    return qkv_BTC.as_strided({shape.B, count, shape.T, shape.D},
                              {qkv_BTC.stride(0), shape.D, qkv_BTC.stride(1), 1},
                              qkv_BTC.storage_offset() + first_head * shape.D);
  };
  return {.q_BHTD = part(0, shape.H),
          .k_BKTD = part(shape.H, shape.Hkv),
          .v_BKTD = part(shape.H + shape.Hkv, shape.Hkv)};
}

ConstHeadsView heads_view(const at::Tensor& x_BHTD) {
  return {.data = x_BHTD.data_ptr(),
          .batch_stride = x_BHTD.stride(0),
          .token_stride = x_BHTD.stride(2),
          .head_stride = x_BHTD.stride(1),
          .channel_stride = x_BHTD.stride(3)};
}

QkvHeads fused_rope(const at::Tensor& qkv_BTC, const at::Tensor& cos_TD, const at::Tensor& sin_TD,
                    std::int64_t num_heads, std::int64_t num_kv_heads) {
  const variable_list heads = FusedRope::apply(qkv_BTC, cos_TD, sin_TD, num_heads, num_kv_heads);
  return {.q_BHTD = heads[0], .k_BKTD = heads[1], .v_BKTD = heads[2]};
}

}  // namespace steplens
