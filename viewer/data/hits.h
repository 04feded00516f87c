#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "viewer/data/trace_model.h"

namespace steplens {

/// Which slices to find.
struct HitQuery {
  enum class Kind : std::uint8_t {
    kText,      // Name, as in the trace or as displayed, contains it; upper and lower case alike.
    kKernel,    // Operations of that name in the trace.
    kPhase,     // Operations of the phase called so.
    kModule,    // Operations of modules of that kind, "block/attention".
    kCategory,  // Kernels of the category called so.
  };
  Kind kind = Kind::kText;
  std::string key;
  bool operator==(const HitQuery&) const = default;
};

/// What was found: of each row of each lane the indices of its slices, in order.
struct Hits {
  std::vector<std::vector<std::vector<std::uint32_t>>> by_lane;
  std::size_t count = 0;

  std::span<const std::uint32_t> of(std::size_t lane, std::size_t row) const {
    return by_lane.empty() ? std::span<const std::uint32_t>() : by_lane[lane][row];
  }
};

/// Linear in the number of slices.
Hits find_hits(const TraceModel& model, const HitQuery& query,
               const std::atomic<bool>* is_cancelled = nullptr);

/// The hit that begins next after a moment, or last before it; of several at the same time the one
/// in the uppermost lane. Nothing if there is none.
std::optional<SliceRef> next_hit(const TraceModel& model, const Hits& hits, std::int64_t time_ns);
std::optional<SliceRef> previous_hit(const TraceModel& model, const Hits& hits,
                                     std::int64_t time_ns);

}  // namespace steplens
