#include "viewer/data/slice_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <tuple>

namespace steplens {
namespace {

constexpr std::size_t kFanout = SliceRow::kFanout;
using Node = SliceRow::Node;

std::size_t num_groups(std::size_t count) { return (count + kFanout - 1) / kFanout; }

// Where the time of a node goes. Most nodes have one to three tones.
class ToneTimes {
 public:
  void add(Tone tone, std::int64_t busy_ns) { times_[tone % kMaxTones] += busy_ns; }
  Tone dominant() const {
    return static_cast<Tone>(std::ranges::max_element(times_) - times_.begin());
  }
  std::int64_t dominant_ns() const { return times_[dominant()]; }

 private:
  std::array<std::int64_t, kMaxTones> times_{};
};

bool comes_before(const Slice& left, const Slice& right) {
  return std::tie(left.start_ns, right.end_ns, left.row) <
         std::tie(right.start_ns, left.end_ns, right.row);
}

// The first row that is free at a moment: a tree of minima over the rows' ends.
class FreeRows {
 public:
  // Takes the row until `end_ns` and returns it.
  std::size_t take(std::int64_t start_ns, std::int64_t end_ns) {
    if (min_ends_[1] > start_ns) grow();
    std::size_t node = 1;
    while (node < capacity_) node = 2 * node + (min_ends_[2 * node] <= start_ns ? 0 : 1);
    const std::size_t row = node - capacity_;
    min_ends_[node] = end_ns;
    for (node /= 2; node > 0; node /= 2) {
      min_ends_[node] = std::min(min_ends_[2 * node], min_ends_[2 * node + 1]);
    }
    return row;
  }

 private:
  static constexpr std::int64_t kFree = std::numeric_limits<std::int64_t>::min();

  void grow() {
    const std::vector<std::int64_t> old = std::move(min_ends_);
    min_ends_.assign(4 * capacity_, kFree);
    std::ranges::copy(std::span(old).subspan(capacity_),
                      min_ends_.begin() + static_cast<std::ptrdiff_t>(2 * capacity_));
    capacity_ *= 2;
    for (std::size_t node = capacity_ - 1; node > 0; --node) {
      min_ends_[node] = std::min(min_ends_[2 * node], min_ends_[2 * node + 1]);
    }
  }

  std::size_t capacity_ = 1;
  std::vector<std::int64_t> min_ends_ = {kFree, kFree};
};

}  // namespace

SliceRow::SliceRow(PodVector<Slice> slices, std::span<const Tone> tone_of_name)
    : slices_(std::move(slices)),
      tone_of_name_(tone_of_name) {
  if (slices_.empty()) return;
  std::vector<Node>& leaves = levels_.emplace_back(num_groups(size()));
  std::int64_t busy_ns = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    Node& node = leaves[i];
    const std::size_t begin = i * kFanout;
    const std::size_t end = std::min(begin + kFanout, size());
    node.start_ns = slices_[begin].start_ns;
    node.busy_before_ns = busy_ns;
    ToneTimes tones;
    for (std::size_t k = begin; k < end; ++k) {
      const std::int64_t duration_ns = slices_[k].duration_ns();
      busy_ns += duration_ns;
      node.longest_ns = std::max(node.longest_ns, duration_ns);
      tones.add(tone_of(slices_[k]), duration_ns);
    }
    node.dominant = tones.dominant();
    node.dominant_ns = tones.dominant_ns();
  }
  while (levels_.back().size() > 1) {
    const std::vector<Node>& below = levels_.back();
    std::vector<Node> nodes(num_groups(below.size()));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Node& node = nodes[i];
      const auto children =
          std::span(below).subspan(i * kFanout, std::min(kFanout, below.size() - i * kFanout));
      node = children.front();
      ToneTimes tones;
      for (const Node& child : children) {
        node.longest_ns = std::max(node.longest_ns, child.longest_ns);
        tones.add(child.dominant, child.dominant_ns);
      }
      node.dominant = tones.dominant();
      node.dominant_ns = tones.dominant_ns();
    }
    levels_.push_back(std::move(nodes));
  }
}

std::int64_t SliceRow::busy_before_ns(std::size_t index) const {
  if (levels_.empty()) return 0;
  const std::size_t leaf = std::min(index / kFanout, levels_[0].size() - 1);
  std::int64_t busy_ns = levels_[0][leaf].busy_before_ns;
  for (std::size_t i = leaf * kFanout; i < index; ++i) busy_ns += slices_[i].duration_ns();
  return busy_ns;
}

std::int64_t SliceRow::busy_ns(std::int64_t start_ns, std::int64_t end_ns) const {
  const auto busy_until = [&](std::int64_t time_ns) {
    const std::size_t index = first_ending_after(time_ns);
    const std::int64_t before_ns = busy_before_ns(index);
    if (index == size()) return before_ns;
    return before_ns + std::max<std::int64_t>(0, time_ns - slices_[index].start_ns);
  };
  return end_ns > start_ns ? busy_until(end_ns) - busy_until(start_ns) : 0;
}

std::size_t SliceRow::first_ending_after(std::int64_t time_ns) const {
  const std::size_t index = first_starting_at(time_ns);
  // Only the one before may still be open then.
  return index > 0 && slices_[index - 1].end_ns > time_ns ? index - 1 : index;
}

std::size_t SliceRow::first_starting_at(std::int64_t time_ns, std::size_t hint) const {
  if (hint >= size()) return size();
  // Most often a few slices on: within the hint's node.
  const std::size_t near_end = std::min((hint / kFanout + 1) * kFanout, size());
  if (slices_[near_end - 1].start_ns >= time_ns) {
    while (slices_[hint].start_ns < time_ns) ++hint;
    return hint;
  }
  // Else gallop over the leaves: `low` begins before the moment.
  const std::vector<Node>& leaves = levels_[0];
  std::size_t low = hint / kFanout;
  std::size_t step = 1;
  while (low + step < leaves.size() && leaves[low + step].start_ns < time_ns) {
    low += step;
    step *= 2;
  }
  std::size_t high = std::min(low + step, leaves.size());
  while (low + 1 < high) {
    const std::size_t middle = (low + high) / 2;
    (leaves[middle].start_ns < time_ns ? low : high) = middle;
  }
  std::size_t index = std::max(hint, low * kFanout);
  const std::size_t end = std::min((low + 1) * kFanout, size());
  while (index < end && slices_[index].start_ns < time_ns) ++index;
  return index;
}

Tone SliceRow::dominant_of(std::size_t begin, std::size_t end) const {
  ToneTimes tones;
  if (end - begin == 1) return tone_of(slices_[begin]);
  if (end - begin <= 2 * kFanout) {
    for (std::size_t i = begin; i < end; ++i)
      tones.add(tone_of(slices_[i]), slices_[i].duration_ns());
    return tones.dominant();
  }
  // The highest level of which a whole node surely lies inside.
  std::size_t level = 0;
  std::size_t node_size = kFanout;
  while (level + 1 < levels_.size() && 2 * node_size * kFanout <= end - begin) {
    node_size *= kFanout;
    ++level;
  }
  constexpr std::size_t kMaxSamples = 8;
  const std::size_t first = (begin + node_size - 1) / node_size;
  const std::size_t last = std::max(first + 1, end / node_size);
  const std::size_t stride = std::max<std::size_t>(1, (last - first) / kMaxSamples);
  for (std::size_t i = first; i < last; i += stride) {
    tones.add(levels_[level][i].dominant, levels_[level][i].dominant_ns);
  }
  return tones.dominant();
}

std::size_t SliceRow::longest_of(std::size_t begin, std::size_t end) const {
  std::size_t best = begin;
  const auto look_at = [&](std::size_t i) {
    if (slices_[i].duration_ns() > slices_[best].duration_ns()) best = i;
  };
  std::size_t i = begin;
  while (i < end) {
    // Climb while a whole node begins here and cannot hold anything longer.
    std::size_t node_size = 1;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const std::size_t size_here = node_size * kFanout;
      if (i % size_here != 0 || i + size_here > end) break;
      if (levels_[level][i / size_here].longest_ns > slices_[best].duration_ns()) break;
      node_size = size_here;
    }
    if (node_size == 1) look_at(i);
    i += node_size;
  }
  return best;
}

std::size_t SliceRow::num_bytes() const {
  std::size_t num_bytes = slices_.num_bytes();
  for (const auto& nodes : levels_) num_bytes += nodes.capacity() * sizeof(Node);
  return num_bytes;
}

std::vector<SliceRow> make_rows(PodVector<Slice> slices, std::span<const Tone> tone_of_name) {
  std::vector<SliceRow> rows;
  if (slices.empty()) return rows;
  bool is_sorted = true;
  bool overlaps = false;
  for (std::size_t i = 1; i < slices.size(); ++i) {
    is_sorted &= !comes_before(slices[i], slices[i - 1]);
    overlaps |= slices[i].start_ns < slices[i - 1].end_ns;
  }
  if (!is_sorted) {
    std::sort(slices.begin(), slices.end(), comes_before);
    overlaps = std::adjacent_find(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
                 return b.start_ns < a.end_ns;
               }) != slices.end();
  }
  if (!overlaps) {
    rows.emplace_back(std::move(slices), tone_of_name);
    return rows;
  }
  FreeRows free_rows;
  std::vector<std::uint32_t> row_of_slice(slices.size());
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const std::size_t row = free_rows.take(slices[i].start_ns, slices[i].end_ns);
    if (row >= sizes.size()) sizes.resize(row + 1);
    row_of_slice[i] = static_cast<std::uint32_t>(row);
    ++sizes[row];
  }
  std::vector<PodVector<Slice>> parts;
  parts.reserve(sizes.size());
  for (const std::size_t size : sizes) parts.emplace_back(size);
  std::ranges::fill(sizes, 0);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    parts[row_of_slice[i]][sizes[row_of_slice[i]]++] = slices[i];
  }
  slices = {};
  for (PodVector<Slice>& part : parts) rows.emplace_back(std::move(part), tone_of_name);
  return rows;
}

}  // namespace steplens
