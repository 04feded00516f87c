#pragma once

#include <ATen/core/Tensor.h>

#include "workloads/dropout.h"

namespace steplens {

/// The residual stream where a norm read it, and what the norm made of it.
struct NormedStream {
  at::Tensor stream_BTC;  // Of the stream's type.
  at::Tensor normed_BTC;  // Of the type asked for.
};

/// stream = x + dropped out branch (undefined branch: x), normed = RMSNorm(stream) * weight, by one
/// kernel each way (kernels/rms_norm). On a GPU. `x_BTC` and a branch of `type` are fp32 or bf16,
/// `weight_C` fp32; `type` is the type of the products that follow. Differentiable once.
NormedStream fused_norm(const at::Tensor& x_BTC, const at::Tensor& branch_BTC,
                        const at::Tensor& weight_C, double epsilon, at::ScalarType type,
                        const DropoutSite& dropout = {});

}  // namespace steplens
