#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace steplens {

/// Something that lasts, to be drawn on a track.
struct LaneSlice {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t row = 0;
  std::uint32_t table = 0;  // What `row` counts; the caller's business.
};

enum class Overlap : std::uint8_t {
  kNone,    // Slices of a lane follow each other: operations of a stream.
  kNested,  // A slice may lie within another one: calls of a thread.
};

/// Sorts `slices` by start, longest first, and gives each the first lane where it fits: viewers
/// drop slices of one track that cross. The result has the lane of each slice, from 0 up.
std::vector<std::uint32_t> assign_lanes(std::vector<LaneSlice>& slices, Overlap overlap);

}  // namespace steplens
