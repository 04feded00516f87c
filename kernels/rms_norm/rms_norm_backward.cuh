#pragma once

#include <cuda_runtime_api.h>

#include "kernels/rms_norm/rms_norm.h"

// What the files of the backward kernels share. P: blocks of a variant's first stage, each of which
// leaves one row of partial sums of dweight in the workspace (P, C).
namespace steplens::rms_norm_backward_detail {

inline constexpr int kMaxBlocksPerMultiprocessor = 4;  // Of the first stage, in all variants.

/// Throws ConfigError unless the operator takes `args`.
void check(const RmsNormBackwardArgs& args);

/// The second stage: sums `num_partials` rows of the workspace into dweight, in a fixed order. It
/// may start while the first stage's last blocks run, and waits for them.
void launch_sum_partials(const RmsNormBackwardArgs& args, int num_partials, cudaStream_t stream);

// The variant row_in_shared (rms_norm_backward_row_in_shared.cu).
bool fits_row_in_shared(const RmsNormBackwardArgs& args);
void launch_row_in_shared(const RmsNormBackwardArgs& args, cudaStream_t stream);

}  // namespace steplens::rms_norm_backward_detail
