#include "workloads/fused/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/embedding/embedding.h"
#include "workloads/evidence.h"
#include "workloads/fused/launch.h"

namespace steplens {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedEmbedding : torch::autograd::Function<FusedEmbedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table_VC,
                            const at::Tensor& tokens_BT) {
    context->save_for_backward({tokens_BT});
    context->saved_data["V"] = table_VC.size(0);
    context->saved_data["type"] = static_cast<std::int64_t>(table_VC.scalar_type());
    return at::embedding(table_VC, tokens_BT);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor tokens_BT = context->get_saved_variables().front().contiguous();
    const at::Tensor dy_BTC = gradients.front().contiguous();
    const std::int64_t vocab_size = context->saved_data["V"].toInt();
    const std::int64_t num_channels = dy_BTC.size(-1);
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    // The forward pass copied rows: dy has the table's type.
    const at::Tensor dtable_VC =
        at::empty({vocab_size, num_channels}, dy_BTC.options().dtype(type));
    const at::Tensor workspace =
        at::empty({static_cast<std::int64_t>(embedding_backward_workspace_bytes(
                      tokens_BT.numel(), num_channels, vocab_size))},
                  dy_BTC.options().dtype(at::kByte));
    embedding_backward({.dy = dy_BTC.data_ptr(),
                        .tokens = tokens_BT.data_ptr<std::int64_t>(),
                        .dtable = dtable_VC.data_ptr(),
                        .workspace = workspace.data_ptr(),
                        .N = tokens_BT.numel(),
                        .C = num_channels,
                        .V = vocab_size,
                        .dy_type = element_type_of(dy_BTC),
                        .dtable_type = element_type_of(type)},
                       current_stream());
    count_event("fused_embedding_gradients");
    return {dtable_VC, at::Tensor()};
  }
};

}  // namespace

at::Tensor fused_embedding(const at::Tensor& table_VC, const at::Tensor& tokens_BT) {
  return FusedEmbedding::apply(table_VC, tokens_BT);
}

}  // namespace steplens
