#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>
#include <nlohmann/json_fwd.hpp>

#include "harness/run_config.h"

namespace steplens {

/// out = a b, or out += a b, of matrices that lie without gaps or are transposes of such. a and b
/// are fp32 or bf16 alike, `out` has their type or is fp32.
///
/// gemm=heuristic: ATen's product, by the algorithm that cuBLAS puts first. gemm=tuned: by the
/// fastest one measured (kernels/gemm), whose table lies in STEPLENS_GEMM_TABLES or
/// ~/.cache/steplens/gemm; on a GPU.
void mm_out_by(Gemm gemm, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
               bool is_added = false);

/// out = residual + a b, the sum rounded once, by one kernel of cuBLASLt that reads the residual in
/// its epilogue; `out` and the residual have no gaps and one type. Operands and types as above; the
/// algorithm is cuBLASLt's first choice or the measured one. On a GPU.
void add_mm_out_by(Gemm gemm, at::Tensor& out, const at::Tensor& residual, const at::Tensor& a,
                   const at::Tensor& b);

/// x W^T with gemm=tuned, forward and both products of the backward pass: (..., K) and (N, K) give
/// (..., N). Under autocast both are cast as at::linear casts them. Differentiable once.
at::Tensor tuned_linear(const at::Tensor& x_K, const at::Tensor& weight_NK);

/// Clears the counters of all products of a captured graph at its start, instead of each before its
/// product (gather_memset_nodes). Between capture and instantiation. Returns how many memset nodes
/// that saved.
std::int64_t gather_counters(cudaGraph_t graph);

/// The products that gemm=tuned has run in this process, each with its algorithm and times. On a
/// GPU.
nlohmann::json tuned_gemm_facts();

}  // namespace steplens
