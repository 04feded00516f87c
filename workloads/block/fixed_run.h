#pragma once

#include <functional>

#include "harness/block.h"
#include "harness/machine.h"

namespace steplens {

class BlockData;
class BlockMemory;
class StepRunner;

/// Warm-up of a fixed length, then the measured steps: fills the record's steps, samples and what
/// the warm-up detector says of them. `memory`: null unless the block records allocations.
/// `after_steps` (may be empty) is called when the device has finished the measured steps.
void run_fixed(const BlockConfig& block, const BlockData& data, StepRunner& steps, Sampler& sampler,
               const std::function<void()>& after_steps, BlockMemory* memory, BlockRecord& record);

}  // namespace steplens
