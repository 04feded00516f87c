#pragma once

#include <optional>

namespace steplens {

/// What a sum of losses is multiplied by, and what will come back through it.
struct LossWeight {
  double factor = 1;  // Such as 1 / tokens of the step.
  /// The gradient of the weighted sum with which the caller promises to begin the backward pass,
  /// where the host knows it: 1 for `loss.backward()`. A loss that makes its gradient ahead of the
  /// backward pass then makes the final one. Absent: any tensor may come, such as the scale of an
  /// fp16 loss, which only the device knows.
  std::optional<double> root_gradient;
};

}  // namespace steplens
