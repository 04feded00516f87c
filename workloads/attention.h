#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "harness/run_config.h"

namespace steplens {

/// Enables exactly one scaled_dot_product_attention backend for the whole process, so that the
/// library's own priority order (on Hopper cuDNN first) decides nothing.
void force_attention(Attention attention);

/// Asks the dispatcher, with tensors of the shapes, dtype and strides of the real call, which
/// backend it will take. Returns the reason as one line when the forced one cannot run (dtype,
/// head_dim, grouped heads, ...), or an empty string. Call after `force_attention`.
std::string why_attention_cannot_run(const RunConfig& config);

}  // namespace steplens
