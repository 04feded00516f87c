#pragma once

#include <ATen/core/Tensor.h>

namespace steplens {

/// Rows `tokens_BT` (int64) of `table_VC`, with a backward pass that sums in a fixed order without
/// atomic additions (kernels/embedding). On a GPU; differentiable once.
at::Tensor fused_embedding(const at::Tensor& table_VC, const at::Tensor& tokens_BT);

}  // namespace steplens
