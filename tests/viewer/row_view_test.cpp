#include "viewer/data/row_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

constexpr std::array<Tone, 8> kTones = {0, 1, 2, 3, 4, 5, 6, 7};

PodVector<Slice> pod(const std::vector<Slice>& slices) {
  PodVector<Slice> copy(slices.size());
  std::ranges::copy(slices, copy.begin());
  return copy;
}

SliceRow row_of(const std::vector<Slice>& slices) { return SliceRow(pod(slices), kTones); }

// Durations over six decades, gaps between some of them, bursts and long idle stretches.
std::vector<Slice> random_slices(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> decades(0, 6);
  std::vector<Slice> slices;
  std::int64_t time_ns = -5'000'000;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (random() % 3 == 0) time_ns += static_cast<std::int64_t>(std::pow(10, decades(random) - 1));
    if (random() % 997 == 0) time_ns += 200'000'000;
    std::int64_t duration_ns = 900 + static_cast<std::int64_t>(random() % 4000);
    if (random() % 50 == 0) duration_ns = static_cast<std::int64_t>(std::pow(10, decades(random)));
    if (random() % 200 == 0) duration_ns = 0;
    slices.push_back({time_ns, time_ns + duration_ns, static_cast<std::uint32_t>(random() % 8), i});
    time_ns += duration_ns;
  }
  return slices;
}

std::int64_t clipped_ns(const Slice& slice, std::int64_t start_ns, std::int64_t end_ns) {
  return std::max<std::int64_t>(
      0, std::min(slice.end_ns, end_ns) - std::max(slice.start_ns, start_ns));
}

// By looking at every slice.
std::int64_t exact_ns(const std::vector<Slice>& slices, std::int64_t start_ns,
                      std::int64_t end_ns) {
  std::int64_t sum_ns = 0;
  for (const Slice& slice : slices) sum_ns += clipped_ns(slice, start_ns, end_ns);
  return sum_ns;
}

std::int64_t drawn_ns(const SliceRow& row, const RowView& view) {
  std::int64_t sum_ns = 0;
  for (const Bucket& bucket : view.buckets) sum_ns += bucket.busy_ns;
  for (const std::uint32_t index : view.slices) {
    sum_ns += clipped_ns(row.slices()[index], view.start_ns, view.end_ns);
  }
  return sum_ns;
}

TEST(RowView, DrawsExactlyTheBusyTimeAtEveryZoom) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    const std::vector<Slice> slices = random_slices(seed, 30'000);
    const SliceRow row = row_of(slices);
    const std::int64_t first_ns = slices.front().start_ns;
    const std::int64_t whole_ns = slices.back().end_ns - first_ns;
    std::mt19937_64 random(seed);
    RowView view;
    for (int octave = 0; octave < 32; ++octave) {
      for (int place = 0; place < 6; ++place) {
        const std::int64_t width_ns = std::max<std::int64_t>(50, whole_ns >> octave);
        const std::int64_t start_ns =
            first_ns - width_ns / 2 +
            static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(whole_ns));
        const TimeWindow window{
            .start_ns = start_ns, .end_ns = start_ns + width_ns, .width_px = 1600};
        const RowViewOptions options{.max_slices = place % 2 == 0 ? 96U : 5U};
        compute_row_view(row, window, options, view);
        ASSERT_LE(view.start_ns, window.start_ns);
        ASSERT_GE(view.end_ns, window.end_ns);
        ASSERT_LT(view.end_ns - view.start_ns, width_ns + 2 * view.bucket_ns + 1);
        ASSERT_EQ(static_cast<std::int64_t>(view.buckets.size()) * view.bucket_ns,
                  view.end_ns - view.start_ns);
        ASSERT_EQ(drawn_ns(row, view), exact_ns(slices, view.start_ns, view.end_ns))
            << "octave " << octave << " place " << place << " seed " << seed;
        ASSERT_LE(view.slices.size(), options.max_slices);
        for (const Bucket& bucket : view.buckets) {
          ASSERT_GE(bucket.busy_ns, 0);
          ASSERT_LE(bucket.busy_ns, view.bucket_ns);
        }
      }
    }
  }
}

TEST(RowView, EachBucketHasTheTimeOfTheSlicesInIt) {
  const std::vector<Slice> slices = random_slices(9, 5000);
  const SliceRow row = row_of(slices);
  RowView view;
  const TimeWindow window{.start_ns = -5'000'000, .end_ns = 15'000'000, .width_px = 1000};
  compute_row_view(row, window, {.max_slices = 1 << 20}, view);
  std::vector<std::int64_t> expected_ns(view.buckets.size());
  std::vector<std::uint32_t> expected_counts(view.buckets.size());
  for (std::uint32_t i = 0; i < slices.size(); ++i) {
    if (std::ranges::binary_search(view.slices, i)) continue;
    for (std::size_t b = 0; b < expected_ns.size(); ++b) {
      const std::int64_t start_ns = view.start_ns + static_cast<std::int64_t>(b) * view.bucket_ns;
      expected_ns[b] += clipped_ns(slices[i], start_ns, start_ns + view.bucket_ns);
      if (slices[i].start_ns >= start_ns && slices[i].start_ns < start_ns + view.bucket_ns &&
          slices[i].end_ns > view.start_ns) {
        ++expected_counts[b];
      }
    }
  }
  for (std::size_t b = 0; b < expected_ns.size(); ++b) {
    EXPECT_EQ(view.buckets[b].busy_ns, expected_ns[b]) << b;
    EXPECT_EQ(view.buckets[b].count, expected_counts[b]) << b;
  }
}

TEST(RowView, DrawsWideSlicesThemselves) {
  // A pixel is 10 ns: 30 ns and more are wide.
  const SliceRow row =
      row_of({{0, 29, 1, 0}, {100, 130, 2, 1}, {200, 900, 3, 2}, {900, 905, 4, 3}});
  RowView view;
  compute_row_view(row, {.start_ns = 0, .end_ns = 1000, .width_px = 100}, {}, view);
  EXPECT_THAT(view.slices, testing::ElementsAre(1, 2));
}

TEST(RowView, ShowsOnlyTheLongestWhereTooManyAreWide) {
  std::vector<Slice> slices;
  for (std::uint32_t i = 0; i < 20; ++i) slices.push_back({i * 100, i * 100 + 40 + i, 0, i});
  RowView view;
  compute_row_view(row_of(slices), {.start_ns = 0, .end_ns = 2000, .width_px = 200},
                   {.max_slices = 4}, view);
  EXPECT_THAT(view.slices, testing::ElementsAre(16, 17, 18, 19));
}

TEST(RowView, ABucketHasTheToneOfMostOfItsTime) {
  // 1 ms a pixel; everything is in the first one or two buckets.
  const SliceRow row =
      row_of({{0, 100, 1, 0}, {100, 500, 2, 1}, {500, 700, 1, 2}, {700, 900, 3, 3}});
  RowView view;
  compute_row_view(row, {.start_ns = 0, .end_ns = 1'000'000'000, .width_px = 1000}, {}, view);
  EXPECT_EQ(view.buckets[0].tone, 2);
  EXPECT_EQ(view.buckets[0].count, 4U);
  EXPECT_EQ(view.buckets[0].busy_ns, 900);
}

TEST(RowView, PanningKeepsTheGrid) {
  const SliceRow row = row_of(random_slices(4, 20'000));
  RowView before;
  RowView after;
  compute_row_view(row, {.start_ns = 0, .end_ns = 40'000'000, .width_px = 1600}, {}, before);
  compute_row_view(row, {.start_ns = 12'345, .end_ns = 40'012'345, .width_px = 1600}, {}, after);
  ASSERT_EQ(before.bucket_ns, after.bucket_ns);
  EXPECT_EQ((after.start_ns - before.start_ns) % before.bucket_ns, 0);
}

TEST(RowView, MarksTheBucketsOfWhatIsHighlighted) {
  std::vector<Slice> slices;
  for (std::uint32_t i = 0; i < 1000; ++i) slices.push_back({i * 1000, i * 1000 + 500, 0, i});
  const SliceRow row = row_of(slices);
  RowView view;
  const std::vector<std::uint32_t> highlighted = {7, 8, 500};
  // 10 us a pixel.
  compute_row_view(row, {.start_ns = 0, .end_ns = 1'000'000, .width_px = 100},
                   {.highlighted = highlighted}, view);
  std::vector<std::size_t> marked;
  for (std::size_t i = 0; i < view.buckets.size(); ++i) {
    if (view.buckets[i].is_highlighted) marked.push_back(i);
  }
  EXPECT_THAT(marked, testing::ElementsAre(view.bucket_of(7'000), view.bucket_of(500'000)));
}

TEST(RowView, OfNothingHasEmptyBuckets) {
  RowView view;
  compute_row_view(SliceRow(), {.start_ns = 0, .end_ns = 1000, .width_px = 100}, {}, view);
  EXPECT_TRUE(view.slices.empty());
  for (const Bucket& bucket : view.buckets) EXPECT_EQ(bucket.count, 0U);
}

TEST(SliceRow, BusyTimeOfAnyStretchIsExact) {
  const std::vector<Slice> slices = random_slices(5, 3000);
  const SliceRow row = row_of(slices);
  std::mt19937_64 random(5);
  const std::int64_t first_ns = slices.front().start_ns - 1000;
  const auto whole_ns = static_cast<std::uint64_t>(slices.back().end_ns + 1000 - first_ns);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t a = first_ns + static_cast<std::int64_t>(random() % whole_ns);
    const std::int64_t b = first_ns + static_cast<std::int64_t>(random() % whole_ns);
    EXPECT_EQ(row.busy_ns(a, b), b > a ? exact_ns(slices, a, b) : 0);
  }
  EXPECT_EQ(row.busy_ns(), exact_ns(slices, first_ns, slices.back().end_ns));
}

TEST(SliceRow, FindsByTimeAndTheLongest) {
  const std::vector<Slice> slices = random_slices(6, 4000);
  const SliceRow row = row_of(slices);
  std::mt19937_64 random(6);
  for (int i = 0; i < 500; ++i) {
    const Slice& some = slices[random() % slices.size()];
    const std::int64_t time_ns = some.start_ns + static_cast<std::int64_t>(random() % 3) - 1;
    const auto starting = static_cast<std::size_t>(
        std::ranges::lower_bound(slices, time_ns, {}, &Slice::start_ns) - slices.begin());
    EXPECT_EQ(row.first_starting_at(time_ns), starting);
    const std::size_t hint = random() % (starting + 1);
    EXPECT_EQ(row.first_starting_at(time_ns, hint), starting);
    const auto ending = static_cast<std::size_t>(
        std::ranges::find_if(slices, [&](const Slice& s) { return s.end_ns > time_ns; }) -
        slices.begin());
    // Slices without duration may lie between.
    EXPECT_EQ(exact_ns(slices, slices.front().start_ns, time_ns),
              row.busy_ns(slices.front().start_ns, time_ns));
    EXPECT_LE(row.first_ending_after(time_ns), ending);

    const std::size_t begin = random() % slices.size();
    const std::size_t end = begin + 1 + random() % (slices.size() - begin);
    const auto part = std::span(slices).subspan(begin, end - begin);
    const Slice longest = *std::ranges::max_element(part, {}, &Slice::duration_ns);
    EXPECT_EQ(slices[row.longest_of(begin, end)].duration_ns(), longest.duration_ns());
  }
}

TEST(MakeRows, PutsOverlappingSlicesIntoDifferentRows) {
  // Nested calls: outer, two inner ones, and one within an inner one; then one that crosses.
  const auto rows = make_rows(
      pod({{0, 100, 0, 0}, {10, 40, 0, 1}, {20, 30, 0, 2}, {50, 60, 0, 3}, {90, 120, 0, 4}}),
      kTones);
  ASSERT_EQ(rows.size(), 3U);
  const auto rows_of = [](const SliceRow& row) {
    std::vector<std::uint32_t> numbers;
    for (const Slice& slice : row.slices()) numbers.push_back(slice.row);
    return numbers;
  };
  EXPECT_THAT(rows_of(rows[0]), testing::ElementsAre(0));
  EXPECT_THAT(rows_of(rows[1]), testing::ElementsAre(1, 3, 4));
  EXPECT_THAT(rows_of(rows[2]), testing::ElementsAre(2));
}

TEST(MakeRows, DropsNothingHoweverManyOverlap) {
  std::vector<Slice> slices;
  std::mt19937 random(8);
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const auto start_ns = static_cast<std::int64_t>(random() % 100'000);
    slices.push_back({start_ns, start_ns + static_cast<std::int64_t>(random() % 2000), 0, i});
  }
  std::size_t count = 0;
  std::int64_t busy_ns = 0;
  for (const SliceRow& row : make_rows(pod(slices), kTones)) {
    for (std::size_t i = 1; i < row.size(); ++i) {
      ASSERT_GE(row.slices()[i].start_ns, row.slices()[i - 1].end_ns);
    }
    count += row.size();
    busy_ns += row.busy_ns();
  }
  EXPECT_EQ(count, slices.size());
  EXPECT_EQ(busy_ns, exact_ns(slices, 0, 200'000));
}

}  // namespace
}  // namespace steplens
