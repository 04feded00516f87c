#pragma once

#include "harness/block_durations.h"
#include "harness/cli/context.h"
#include "harness/plan.h"

namespace steplens {

/// What `--dry-run` prints: arms with what differs, batch arithmetic, number of blocks, expected
/// duration, and the levels that cannot run with their reasons.
Printout describe_plan(const Plan& plan, const BlockDurations& durations,
                       std::string_view durations_source);

}  // namespace steplens
