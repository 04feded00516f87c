#pragma once

#include "kernels/gemm/plan.h"

namespace steplens {

/// Measures the algorithms that cuBLASLt's heuristic offers and, of products that take long enough,
/// others that differ from the fastest of them in a tile, a cluster shape or the like. Runs on the
/// operands of `args`, whose C is left as it is if the product is added to it. Not during a
/// capture. Throws DeviceError naming shape and call.
GemmAlgorithm tune(const GemmPlan& plan, const GemmArgs& args, cudaStream_t stream);

}  // namespace steplens
