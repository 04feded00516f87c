#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/bundle.h"

namespace steplens {

/// Where a bundle's numbers come from, by name: "gpu.driver_version" and "580.159.04". Program and
/// sources, the machine as the scheduler saw it, then as the first usable block of the baseline
/// did, and the data. Text for people; what is absent is left out.
std::vector<std::pair<std::string, std::string>> provenance_of(const Bundle& bundle);

}  // namespace steplens
