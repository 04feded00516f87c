#pragma once

#include "harness/bundle.h"
#include "reports/results.h"

namespace steplens {

/// An arm's row with what its own blocks say: identity, rates, step times, memory, samples, MFU.
/// What needs its reference or the whole matrix is left at its default.
ArmResult describe_arm(const Bundle& bundle, const Arm& arm);

}  // namespace steplens
