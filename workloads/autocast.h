#pragma once

#include <ATen/autocast_mode.h>

#include "harness/run_config.h"

namespace steplens {

/// What autocast does in one thread; copied into the backward pass by activation checkpointing.
struct AutocastMode {
  at::DeviceType device = at::kCPU;
  bool is_enabled = false;
  at::ScalarType type = at::kBFloat16;
};

/// bf16 and fp16 run under autocast over fp32 weights; fp32 and tf32 do not.
AutocastMode autocast_mode(const RunConfig& config);

/// Autocast for the enclosing scope. Leave it before `backward`: autograd threads take the flags
/// over as they stand at that call. The cache of cast weights is off, because each weight is used
/// once a micro-step and a cached copy must never outlive an optimizer step or enter a graph.
class AutocastScope {
 public:
  [[nodiscard]] explicit AutocastScope(const AutocastMode& mode);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastMode previous_;
  bool had_cache_;
};

}  // namespace steplens
