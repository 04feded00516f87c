#pragma once

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"
#include "workloads/loss_weight.h"

namespace steplens {

/// weight.factor x the sum of the cross-entropies of h W^T over all positions whose target is not
/// -100: fp32 scalar.
///
/// LM head and loss together, a chunk of rows at a time: logits into a buffer that all chunks
/// share, their loss and gradient in place (kernels/cross_entropy), from that the chunk's gradient
/// of h and its part of the gradient of W, summed in fp32 unless all rows come at once (0). So the
/// whole gradient is there after the forward pass. With weight.root_gradient it is the final one,
/// and backward at most rounds that of W to W's type; without, backward scales it by what comes in,
/// in the same pass.
///
/// `max_rows`: of a chunk (harness/head_chunks.h). `gemm`: by whose algorithms the products run
/// (workloads/fused/gemm.h). `h_BTC` and `weight_VC` are computed with in `type` (fp32 or bf16),
/// targets are int64 (B, T). On a GPU; differentiable once.
at::Tensor fused_head_loss(const at::Tensor& h_BTC, const at::Tensor& weight_VC,
                           const at::Tensor& targets_BT, at::ScalarType type, Gemm gemm,
                           std::int64_t max_rows, const LossWeight& weight = {});

}  // namespace steplens
