#include <algorithm>

#include "workloads/catalog/toggles.h"

namespace steplens {

std::string_view why_not(const RunConfig& config) {
  for (const Toggle& toggle : all_toggles()) {
    const Level* level = find_level(toggle, current_level(toggle, config));
    if (level != nullptr && level->why_not != nullptr) {
      const std::string_view reason = level->why_not(config);
      if (!reason.empty()) return reason;
    }
  }
  if (config.dropout > 0) {
    if (config.precision == Precision::kFp16) {
      return "dropout takes fp32 and bf16; with precision=fp16 set dropout=0";
    }
    if (config.world_size > 1) {
      return "dropout runs on one rank: the masks of several would be the same; set dropout=0";
    }
    if (config.compile == Compile::kAoti) {
      return "compile=aoti has no dropout; set dropout=0";
    }
  }
  if (config.compile == Compile::kAoti) {
    if (uses_reducer(config)) {
      return "compile=aoti runs on one rank and past the Reducer: its gradients come all at once, "
             "after the backward pass";
    }
    if (config.batching != Batching::kPacked) {
      return "compile=aoti has one package a shape; batching=padded and bucketed vary it";
    }
    if (config.norm != Operators::kAten || config.rope != Operators::kAten ||
        config.mlp != Operators::kAten || config.loss != Operators::kAten ||
        config.embedding != Operators::kAten || config.residual != Operators::kAten) {
      return "compile=aoti makes kernels of its own from ATen's operators; take norm, rope, mlp, "
             "loss, embedding and residual=aten";
    }
    if (config.num_loss_rows != RunConfig{}.num_loss_rows) {
      return "compile=aoti makes the loss's kernels of its own; take loss_rows=8192";
    }
    if (config.gemm != Gemm::kHeuristic) {
      return "compile=aoti makes its own matrix products; take gemm=heuristic";
    }
    if (config.weights != Weights::kFp32) {
      return "compile=aoti takes fp32 weights; its package knows no masters";
    }
    if (config.checkpoint != Checkpoint::kOff) {
      return "compile=aoti holds forward and backward in one graph, which drops what "
             "checkpoint=full recomputes";
    }
  }
  if (config.graph) {
    if (config.optimizer == Optimizer::kLoop) {
      return "graph=on bakes the loop optimizer's bias correction into the graph; take "
             "optimizer=foreach, fused or multi_tensor";
    }
    if (config.precision == Precision::kFp16 && config.optimizer == Optimizer::kForeach) {
      return "graph=on cannot read the overflow flag of fp16 on the host; take optimizer=fused "
             "or multi_tensor";
    }
    if (config.sync_every_micro_step) {
      return "graph=on cannot wait for the device inside the captured step";
    }
    if (config.batching != Batching::kPacked) {
      return "graph=on needs one shape for every step; batching=padded and bucketed vary it";
    }
  }
  return "";
}

}  // namespace steplens
