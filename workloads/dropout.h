#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/dropout/dropout.h"

namespace steplens {

/// One use of dropout in one pass through the model: what its mask is drawn from
/// (kernels/dropout/dropout.h). The step lies on the device, so that a captured step draws anew.
struct DropoutSite {
  double probability = 0;  // 0: no dropout.
  std::uint64_t seed = 0;
  std::uint32_t call_index = 0;  // Of the use within the optimizer step.
  at::Tensor step_index;         // int64 (1) on the run's device; undefined: step 0.

  bool drops() const { return probability > 0; }
  DropoutMask mask() const;
};

/// x with the elements of `site`'s mask dropped, by one kernel each way, or a loop on a CPU;
/// nothing is kept for the backward pass. fp32, on a GPU bf16 too; differentiable once.
at::Tensor drop_out(const at::Tensor& x, const DropoutSite& site);

}  // namespace steplens
