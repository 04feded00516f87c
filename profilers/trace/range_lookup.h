#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// Finds what was open on a thread at a moment. Of one domain, whose ranges nest.
class RangeLookup {
 public:
  /// `instances`: rows of the trace, those of each thread in the order of their starts; outlives
  /// this. Only rows for which `is_included` are seen.
  RangeLookup(std::span<const RangeInstance> instances, const std::vector<bool>& is_included);

  /// Row of the innermost instance open on the thread (row of Trace::threads) then; kNoRow if none.
  std::uint32_t innermost(std::uint32_t thread, std::int64_t time_ns) const;

 private:
  std::span<const RangeInstance> instances_;
  std::vector<bool> is_included_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> rows_;  // Thread to rows, by start.
};

}  // namespace steplens
