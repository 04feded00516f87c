#pragma once

#include <optional>
#include <string>

#include "harness/block.h"

namespace steplens {

/// Compares the clocks of a block: the measured steps' wall times must sum to the block's own wall
/// time and, where there is a GPU, to the event-to-event times, within 0.5 %. Returns how they
/// differ, without a full stop, if they do: the block's rate is then wrong by as much. A host that
/// sees the end of the warm-up late, because its thread had to wait for a core, makes the first
/// measured step too short.
std::optional<std::string> clock_gap(const BlockRecord& block);

}  // namespace steplens
