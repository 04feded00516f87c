#pragma once

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"

namespace steplens {

/// stream + x W^T: the product that ends a branch reads the residual stream in its epilogue, so
/// that the branch is never in memory and the sum is rounded once, to the stream's type. (..., N),
/// (..., K) and (N, K) give (..., N). On a GPU. The stream is fp32 or of the operands' type; under
/// autocast x and W are cast as at::linear casts them. Who chooses the algorithms says `gemm`.
/// Differentiable once: the stream's gradient is the sum's own, no copy of it.
at::Tensor residual_linear(const at::Tensor& stream_N, const at::Tensor& x_K,
                           const at::Tensor& weight_NK, Gemm gemm);

}  // namespace steplens
