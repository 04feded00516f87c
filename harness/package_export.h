#pragma once

#include <string>
#include <vector>

#include "harness/pilots.h"

namespace steplens {

/// Sees to it that the package of every arm with compile=aoti is there before the first block:
/// `command` (scripts/arms/export_step.py) is run once an arm, outside of every block and its
/// clock, and how long that took becomes a note of the bundle. An arm whose package cannot be made
/// is entered as FAILED, "not available" and the last line of what the command said.
PhaseResult export_packages(RunParts& parts, const std::vector<std::string>& command);

}  // namespace steplens
