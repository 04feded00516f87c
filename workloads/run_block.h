#pragma once

#include <functional>

#include "harness/block.h"
#include "harness/machine.h"
#include "harness/ranks/rank_place.h"

namespace steplens {

/// Runs one block in this process: prepares it, warms up, measures, and returns the whole record.
///
/// Never throws for what a training run can do: out of memory, non-finite loss, an attention
/// backend that refuses, an error of the library are statuses of the record. Throws ConfigError for
/// a config or token file that cannot be used, DeviceError for a device that is not there.
/// `sampler` collects curves while the measured steps run. `after_steps` is called once the device
/// has finished the measured steps of a block that is no pilot, outside all clocks and before
/// anything else runs on the device.
///
/// Of a block of several ranks this is one, at `place`; all of them must call it. Rank 0's record
/// then speaks of all (`record_of_world`), the others' of their own share. A rank whose record has
/// a status that its own error caused must end its process at once, without clean-up: the others
/// wait.
BlockRecord run_block(const BlockConfig& block, Sampler& sampler,
                      const std::function<void()>& after_steps = {}, const RankPlace& place = {});

}  // namespace steplens
