#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/trace/trace.h"
#include "viewer/data/pod_vector.h"

namespace steplens {

/// Something that lasted: an operation, a call, a range.
struct Slice {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;  // Never before the start.
  std::uint32_t name = 0;   // NameId of the model.
  std::uint32_t row = 0;    // Of the table that the lane shows.

  std::int64_t duration_ns() const { return end_ns - start_ns; }
  bool operator==(const Slice&) const = default;
};

/// What colours a slice; the lane's kind says what the number means (of a stream: KernelCategory).
using Tone = std::uint8_t;
inline constexpr std::size_t kMaxTones = 16;

/// Slices that follow one another without overlap, and an implicit forest over them: nodes of 16
/// slices, nodes of 16 nodes, and so on. Questions about any stretch of time take a number of steps
/// that does not depend on how many slices lie in it. Immutable.
class SliceRow {
 public:
  static constexpr std::size_t kFanout = 16;

  struct Node {
    std::int64_t start_ns = 0;        // Of its first slice.
    std::int64_t busy_before_ns = 0;  // Sum of all durations of the row before it.
    std::int64_t longest_ns = 0;      // Duration of its longest slice.
    std::int64_t dominant_ns = 0;     // About how long the dominant tone was; exact in level 0.
    Tone dominant = 0;
  };

  SliceRow() = default;
  /// `slices`: sorted, each beginning at or after the end of the one before. `tone_of_name`: by
  /// NameId; kept.
  SliceRow(PodVector<Slice> slices, std::span<const Tone> tone_of_name);

  std::span<const Slice> slices() const { return slices_.span(); }
  std::size_t size() const { return slices_.size(); }
  /// Level 0 has the nodes of slices; empty above the top.
  std::span<const Node> level(std::size_t i) const {
    return i < levels_.size() ? std::span<const Node>(levels_[i]) : std::span<const Node>();
  }
  std::size_t num_levels() const { return levels_.size(); }
  Tone tone_of(const Slice& slice) const { return tone_of_name_[slice.name]; }

  std::int64_t start_ns() const { return slices_.empty() ? 0 : slices_[0].start_ns; }
  std::int64_t end_ns() const { return slices_.empty() ? 0 : slices_[size() - 1].end_ns; }
  std::int64_t busy_ns() const { return busy_before_ns(size()); }

  /// Sum of the durations of the slices [0, index).
  std::int64_t busy_before_ns(std::size_t index) const;
  /// Exactly how long anything of the row lay in [start_ns, end_ns).
  std::int64_t busy_ns(std::int64_t start_ns, std::int64_t end_ns) const;

  /// Index of the first slice that ends after this moment; size() if none does. A slice without
  /// duration counts as ended.
  std::size_t first_ending_after(std::int64_t time_ns) const;
  /// Index of the first slice at or behind `hint` that begins at this moment or later.
  std::size_t first_starting_at(std::int64_t time_ns, std::size_t hint = 0) const;

  /// The tone of most of the time of the slices [begin, end): exact for few, of whole nodes and a
  /// sample of them for many.
  Tone dominant_of(std::size_t begin, std::size_t end) const;
  /// Index of the longest slice of [begin, end), which is not empty.
  std::size_t longest_of(std::size_t begin, std::size_t end) const;

  std::size_t num_bytes() const;

 private:
  PodVector<Slice> slices_;
  std::span<const Tone> tone_of_name_;
  std::vector<std::vector<Node>> levels_;
};

/// Gives each slice the first row where it does not overlap another: nested slices end up below
/// the one around them. `slices` need no order; none is dropped.
std::vector<SliceRow> make_rows(PodVector<Slice> slices, std::span<const Tone> tone_of_name);

}  // namespace steplens
