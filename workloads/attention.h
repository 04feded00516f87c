#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "harness/run_config.h"

namespace steplens {

/// Enables exactly one scaled_dot_product_attention backend for the whole process, so that the
/// library's own priority order (on Hopper cuDNN first) decides nothing.
void force_attention(Attention attention);

/// What the dispatcher says about the real call: asked with tensors of its shapes, dtype and
/// strides.
struct AttentionChoice {
  std::string chosen;        // The forced backend, or "none" where it cannot run.
  std::string would_choose;  // With all backends allowed; asked only where the forced one cannot.
  std::string why_not;       // The library's reasons in one line; empty if the forced one runs.
  std::string dtype;         // Of query, key and value, as the library calls it: "BFloat16".
};

/// Asks the dispatcher. Call after `force_attention`.
AttentionChoice choose_attention(const RunConfig& config);

/// One line for people where the forced backend cannot run, with what the library looks at (dtype,
/// head_dim, heads, mask, length), its reasons and what it would take instead; else empty.
std::string why_attention_cannot_run(const RunConfig& config, const AttentionChoice& choice);

/// For `evidence.attention` of block.json: wanted, chosen, would_choose, why_not, dtype, head_dim,
/// num_heads, num_kv_heads, mask, sequence_length.
nlohmann::json to_json(const RunConfig& config, const AttentionChoice& choice);

}  // namespace steplens
