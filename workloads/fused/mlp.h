#pragma once

#include <ATen/core/Tensor.h>

namespace steplens {

/// silu(gate) * up of a fused projection `gate_up` (..., 2F) with the gate first: (..., F) of the
/// same type. By one kernel each way (kernels/swiglu), on a GPU, differentiable once.
at::Tensor fused_swiglu(const at::Tensor& gate_up);

}  // namespace steplens
