#pragma once

#include <initializer_list>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "kernels/vector.h"

namespace steplens {

// What the wrappers of kernels/ share: types, streams and checks in LibTorch's terms.

inline ElementType element_type_of(at::ScalarType type) {
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16,
              "the fused operators take fp32 and bf16, not ", type);
  return type == at::kFloat ? ElementType::kFloat32 : ElementType::kBfloat16;
}
inline ElementType element_type_of(const at::Tensor& tensor) {
  return element_type_of(tensor.scalar_type());
}

inline cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

/// (..., K) as (M, K), without gaps.
inline at::Tensor rows_of(const at::Tensor& x_K) {
  return x_K.reshape({-1, x_K.size(-1)}).contiguous();
}

/// Null for an undefined tensor.
inline void* pointer_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

}  // namespace steplens
