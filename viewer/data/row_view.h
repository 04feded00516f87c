#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "viewer/data/slice_row.h"

namespace steplens {

/// The stretch of time that a lane shows, and over how many pixels.
struct TimeWindow {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  double width_px = 0;

  double ns_per_px() const { return static_cast<double>(end_ns - start_ns) / width_px; }
  bool operator==(const TimeWindow&) const = default;
};

/// What is too narrow to be drawn by itself, within one cell of a grid of powers of two of
/// nanoseconds. The grid stands still in time: panning does not make it shimmer.
struct Bucket {
  std::int64_t busy_ns = 0;  // Of slices that are drawn by themselves: none.
  std::uint32_t count = 0;   // Slices that begin in it.
  Tone tone = 0;             // Of most of its time; if it is highlighted, of what stands out in it.
  bool is_highlighted = false;
};

struct RowViewOptions {
  double min_slice_px = 3;      // Narrower slices go into buckets.
  std::size_t max_slices = 96;  // If more would be drawn by themselves, the narrowest are not.
  /// Sorted indices of the slices that stand out.
  std::span<const std::uint32_t> highlighted = {};
};

/// One row of a lane as it is drawn. Every nanosecond of the row within the window is in exactly
/// one place: the durations of `slices`, clipped to the window, and `busy_ns` of the buckets sum to
/// `SliceRow::busy_ns` of it.
struct RowView {
  std::int64_t start_ns = 0;          // The window,
  std::int64_t end_ns = 0;            // widened to whole buckets.
  std::int64_t bucket_ns = 1;         // Power of two.
  std::vector<Bucket> buckets;        // From start_ns on.
  std::vector<std::uint32_t> slices;  // Indices of those drawn by themselves.

  /// Index of the bucket of a moment within the window.
  std::size_t bucket_of(std::int64_t time_ns) const {
    return static_cast<std::size_t>((time_ns - start_ns) / bucket_ns);
  }
};

/// Fills `view`, whose memory is used again. Takes a number of steps of the order of the pixels,
/// however many slices there are.
void compute_row_view(const SliceRow& row, const TimeWindow& window, const RowViewOptions& options,
                      RowView& view);

/// Slices of a bucket, for a tooltip: first and one past the last that lie in it at all.
struct SliceSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};
SliceSpan slices_within(const SliceRow& row, std::int64_t start_ns, std::int64_t end_ns);

}  // namespace steplens
