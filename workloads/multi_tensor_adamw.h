#pragma once

#include <memory>

#include "workloads/optimizer.h"

namespace steplens {

/// AdamW by kernels/adamw: one kernel for the norm of all gradients (and one that adds its parts),
/// one for clip and update of all parameters. Gradients are only read; with bf16 weights the
/// new weights are written in the same pass. On a GPU, also within a captured graph.
std::unique_ptr<AdamW> make_multi_tensor_adamw(const RunConfig& config, const Model& model);

}  // namespace steplens
