#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// Of each row of Trace::ranges, the names from the root to it: "step/micro-step/forward".
std::vector<std::string> range_paths(const Trace& trace);

/// What an operation is called where there is no room for more: the display name of a kernel,
/// "Memcpy HtoD (Pinned -> Device)" and "Memset (Device)" as CUPTI's other users write them.
std::string op_title(const Trace& trace, const GpuOp& op);

/// "HtoD"; empty for kNone.
std::string_view copy_title(CopyKind kind);

/// "Pinned".
std::string_view memory_title(MemoryKind kind);

/// The enumerator that `name_of` calls so; the first one if none is called so.
template <class Enum>
Enum enum_of(std::string_view name, Enum last) {
  for (int value = 0; value <= static_cast<int>(last); ++value) {
    if (name_of(static_cast<Enum>(value)) == name) return static_cast<Enum>(value);
  }
  return Enum{};
}

}  // namespace steplens
