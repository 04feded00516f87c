#pragma once

namespace steplens {

/// How a rank's gradients meet those of the others. A training step calls it around each
/// micro-step; after the backward pass of one that synchronises, in stream order, every gradient is
/// the mean over the ranks of all that was accumulated since gradients were last zero.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  /// `is_last`: of the micro-steps of this optimizer step. Call before the forward pass.
  virtual void before_forward(bool is_last) = 0;
  /// Call between the forward and the backward pass.
  virtual void before_backward(bool is_last) = 0;
};

}  // namespace steplens
