#include "viewer/data/row_view.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace steplens {
namespace {

// Few slices: about a bucket a pixel shows each of them. Many: finding where a bucket ends costs
// some 100 ns a bucket, and 32 dense rows must fit into a frame.
constexpr double kFineBucketPx = 0.75;
constexpr double kCoarseBucketPx = 1.5;
constexpr double kMaxFineSlicesPerPx = 1.5;

int bucket_shift_of(double min_ns) {
  return min_ns <= 1 ? 0 : static_cast<int>(std::ceil(std::log2(min_ns)));
}

class RowViewBuilder {
 public:
  RowViewBuilder(const SliceRow& row, const TimeWindow& window, const RowViewOptions& options,
                 RowView& view)
      : row_(row),
        slices_(row.slices()),
        window_(window),
        options_(options),
        view_(view) {}

  void build() {
    view_.buckets.clear();
    view_.slices.clear();
    set_grid(kFineBucketPx);
    find_slices();
    if (static_cast<double>(end_ - begin_) > kMaxFineSlicesPerPx * window_.width_px) {
      set_grid(kCoarseBucketPx);
      find_slices();
    }
    view_.buckets.resize(static_cast<std::size_t>((view_.end_ns - view_.start_ns) >> shift_));
    if (begin_ == end_) return;
    const auto min_ns = static_cast<std::int64_t>(options_.min_slice_px * window_.ns_per_px());
    threshold_ns_ = std::max<std::int64_t>(1, min_ns);
    collect_wide();
    if (wide_.size() > options_.max_slices) raise_threshold();
    view_.slices = wide_;
    fill_buckets();
    mark_highlighted();
  }

 private:
  void set_grid(double bucket_px) {
    shift_ = bucket_shift_of(bucket_px * window_.ns_per_px());
    view_.bucket_ns = std::int64_t{1} << shift_;
    view_.start_ns = (window_.start_ns >> shift_) << shift_;
    view_.end_ns = ((window_.end_ns + view_.bucket_ns - 1) >> shift_) << shift_;
  }

  void find_slices() {
    begin_ = row_.first_ending_after(view_.start_ns);
    end_ = row_.first_starting_at(view_.end_ns, begin_);
  }

  // Indices of the slices that are as long as the threshold, by the forest: nodes without one are
  // passed over.
  void collect_wide() {
    wide_.clear();
    std::size_t i = begin_;
    while (i < end_) {
      std::size_t node_size = 1;
      for (std::size_t level = 0; level < row_.num_levels(); ++level) {
        const std::size_t size_here = node_size * SliceRow::kFanout;
        if (i % size_here != 0) break;
        if (row_.level(level)[i / size_here].longest_ns >= threshold_ns_) break;
        node_size = size_here;
      }
      if (node_size == 1 && slices_[i].duration_ns() >= threshold_ns_) {
        wide_.push_back(static_cast<std::uint32_t>(i));
      }
      i += node_size;
    }
  }

  void raise_threshold() {
    std::vector<std::uint32_t> longest_first = wide_;
    const auto duration_ns = [&](std::uint32_t i) { return slices_[i].duration_ns(); };
    const auto nth = longest_first.begin() + static_cast<std::ptrdiff_t>(options_.max_slices);
    std::ranges::nth_element(longest_first, nth, std::greater(), duration_ns);
    threshold_ns_ = duration_ns(*nth) + 1;  // Equals of the first one too many stay together.
    std::erase_if(wide_, [&](std::uint32_t i) { return duration_ns(i) < threshold_ns_; });
  }

  void fill_buckets() {
    std::size_t begin = begin_;
    for (const std::uint32_t wide : wide_) {
      fill_run(begin, wide);
      begin = wide + 1;
    }
    fill_run(begin, end_);
  }

  // Slices [i, end), all narrow.
  void fill_run(std::size_t i, std::size_t end) {
    if (i == end) return;
    // The first one may have begun before the view.
    std::int64_t at_ns = std::max(slices_[i].start_ns, view_.start_ns);
    std::int64_t busy_before_ns = row_.busy_before_ns(i) + (at_ns - slices_[i].start_ns);
    while (i < end) {
      std::size_t bucket = static_cast<std::size_t>((at_ns - view_.start_ns) >> shift_);
      if (bucket >= view_.buckets.size()) return;
      const std::int64_t bucket_end_ns =
          view_.start_ns + ((static_cast<std::int64_t>(bucket) + 1) << shift_);
      const std::size_t next = std::min(end, row_.first_starting_at(bucket_end_ns, i));
      const std::int64_t busy_until_ns = row_.busy_before_ns(next);
      const std::int64_t last_end_ns = slices_[next - 1].end_ns;
      std::int64_t overhang_ns = std::max<std::int64_t>(0, last_end_ns - bucket_end_ns);
      const Tone tone = row_.dominant_of(i, next);
      add(bucket, busy_until_ns - busy_before_ns - overhang_ns, tone);
      view_.buckets[bucket].count += static_cast<std::uint32_t>(next - i);
      const Tone last_tone = row_.tone_of(slices_[next - 1]);
      while (overhang_ns > 0 && ++bucket < view_.buckets.size()) {
        add(bucket, std::min(overhang_ns, view_.bucket_ns), last_tone);
        overhang_ns -= std::min(overhang_ns, view_.bucket_ns);
      }
      i = next;
      busy_before_ns = busy_until_ns;
      if (i < end) at_ns = slices_[i].start_ns;
    }
  }

  void add(std::size_t bucket, std::int64_t busy_ns, Tone tone) {
    Bucket& to = view_.buckets[bucket];
    if (to.busy_ns <= busy_ns) to.tone = tone;
    to.busy_ns += busy_ns;
  }

  void mark_highlighted() {
    const auto highlighted = options_.highlighted;
    auto it = std::ranges::lower_bound(highlighted, static_cast<std::uint32_t>(begin_));
    while (it != highlighted.end() && *it < end_) {
      const Slice& slice = slices_[*it];
      const std::int64_t at_ns = std::max(slice.start_ns, view_.start_ns);
      const std::size_t bucket = view_.bucket_of(at_ns);
      const std::size_t last =
          view_.bucket_of(std::clamp(slice.end_ns - 1, at_ns, view_.end_ns - 1));
      if (slice.duration_ns() < threshold_ns_) {
        for (std::size_t i = bucket; i <= last; ++i) {
          view_.buckets[i].is_highlighted = true;
          view_.buckets[i].tone = row_.tone_of(slice);
        }
      }
      // One a bucket is enough.
      const std::int64_t bucket_end_ns =
          view_.start_ns + (static_cast<std::int64_t>(last) + 1) * view_.bucket_ns;
      const std::size_t next = row_.first_starting_at(bucket_end_ns, *it + 1);
      it = std::lower_bound(it + 1, highlighted.end(), static_cast<std::uint32_t>(next));
    }
  }

  const SliceRow& row_;
  std::span<const Slice> slices_;
  const TimeWindow& window_;
  const RowViewOptions& options_;
  RowView& view_;
  int shift_ = 0;
  std::size_t begin_ = 0;  // Slices of the view.
  std::size_t end_ = 0;
  std::int64_t threshold_ns_ = 1;
  std::vector<std::uint32_t> wide_;
};

}  // namespace

void compute_row_view(const SliceRow& row, const TimeWindow& window, const RowViewOptions& options,
                      RowView& view) {
  RowViewBuilder(row, window, options, view).build();
}

SliceSpan slices_within(const SliceRow& row, std::int64_t start_ns, std::int64_t end_ns) {
  const std::size_t begin = row.first_ending_after(start_ns);
  return {begin, std::max(begin, row.first_starting_at(end_ns, begin))};
}

}  // namespace steplens
