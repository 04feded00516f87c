#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>

#include "workloads/autocast.h"

namespace steplens {

class Model;

/// Runs `model.block(layer_index, x, weights)` without keeping its activations; the backward pass
/// runs it again. Parameters are inputs of the autograd node, so their gradients accumulate in the
/// outer graph, where hooks (c10d's Reducer) see them. No random numbers are restored: the model
/// has no dropout. `model` must outlive the backward pass.
///
/// Source: activation recomputation per block, Chen et al. 2016 (arXiv 1604.06174).
at::Tensor checkpointed_block(const Model& model, std::size_t layer_index, const AutocastMode& mode,
                              const at::Tensor& x_BTC, const std::vector<at::Tensor>& weights);

}  // namespace steplens
