#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/range_names.h"
#include "harness/trace/trace.h"

namespace steplens {

/// The phase in which a step waits for its batch.
inline constexpr std::string_view kDataRange = "data";

/// Of each row of Trace::ranges, the path of the modules below the phase: "block 3/attention" of
/// step / micro-step / forward / block 3 / attention; empty for the structure itself. Backward
/// operations carry the range of their forward operator, so both land in one module. Ranges of
/// libraries' domains and of single operators (names with "::") are passed over.
std::vector<std::string> module_paths(const Trace& trace);

/// The path with the numbers at the ends of its parts left out: "block/attention" of
/// "block 3/attention" or "block.3/attention".
std::string module_kind(std::string_view path);

}  // namespace steplens
