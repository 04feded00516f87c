#pragma once

#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// What a trace lacks, or may lack: a sentence each, the worst first. Empty of a whole one.
std::vector<std::string> banners_of(const Trace& tables);

}  // namespace steplens
