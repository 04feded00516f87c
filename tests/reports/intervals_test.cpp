#include "reports/breakdown/intervals.h"

#include <bitset>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Normalised, MergesWhatOverlapsOrTouchesAndDropsWhatIsEmpty) {
  EXPECT_THAT(normalised({{20, 30}, {0, 5}, {3, 10}, {10, 12}, {15, 15}, {19, 18}}),
              ElementsAre(Interval{0, 12}, Interval{20, 30}));
  EXPECT_THAT(normalised({}), IsEmpty());
  EXPECT_THAT(normalised({{0, 100}, {10, 20}}), ElementsAre(Interval{0, 100}));
}

TEST(Subtract, LeavesWhatIsBetween) {
  EXPECT_THAT(subtract(Intervals{{0, 10}, {20, 30}}, Intervals{{2, 3}, {8, 22}, {29, 40}}),
              ElementsAre(Interval{0, 2}, Interval{3, 8}, Interval{22, 29}));
  EXPECT_THAT(subtract(Intervals{{0, 10}}, Intervals{}), ElementsAre(Interval{0, 10}));
  EXPECT_THAT(subtract(Intervals{{5, 6}}, Intervals{{0, 10}}), IsEmpty());
}

TEST(Contains, IsHalfOpen) {
  const Intervals intervals = {{5, 10}, {20, 21}};
  EXPECT_FALSE(contains(intervals, 4));
  EXPECT_TRUE(contains(intervals, 5));
  EXPECT_TRUE(contains(intervals, 9));
  EXPECT_FALSE(contains(intervals, 10));
  EXPECT_TRUE(contains(intervals, 20));
  EXPECT_FALSE(contains(intervals, 21));
}

constexpr int kSpan = 96;  // Small, so that random intervals touch, nest and coincide.
using Bitmap = std::bitset<kSpan>;

Bitmap bitmap(const Intervals& intervals) {
  Bitmap bits;
  for (const Interval& interval : intervals) {
    for (std::int64_t i = interval.start_ns; i < interval.end_ns; ++i) {
      bits.set(static_cast<std::size_t>(i));
    }
  }
  return bits;
}

// Of the moments that are set: the one form that the functions may return.
Intervals from(const Bitmap& bits) {
  Intervals intervals;
  for (int i = 0; i < kSpan; ++i) {
    if (!bits[static_cast<std::size_t>(i)]) continue;
    if (!intervals.empty() && intervals.back().end_ns == i) {
      ++intervals.back().end_ns;
    } else {
      intervals.push_back({i, i + 1});
    }
  }
  return intervals;
}

TEST(Intervals, AgreeWithABitmap) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> time(0, kSpan);
  const auto draw = [&] {
    Intervals intervals(static_cast<std::size_t>(time(random) % 12));
    for (Interval& interval : intervals) {
      interval = {time(random), time(random)};
      if (time(random) % 3 > 0) interval.end_ns = std::min<std::int64_t>(interval.start_ns + 6, 96);
    }
    return intervals;
  };
  for (int i = 0; i < 5000; ++i) {
    const Intervals raw_a = draw();
    const Intervals raw_b = draw();
    const Intervals a = normalised(raw_a);
    const Intervals b = normalised(raw_b);
    const Bitmap bits_a = bitmap(raw_a);
    const Bitmap bits_b = bitmap(raw_b);
    const Interval window = {time(random), time(random)};
    ASSERT_EQ(a, from(bits_a));
    ASSERT_EQ(total_ns(a), static_cast<std::int64_t>(bits_a.count()));
    ASSERT_LE(total_ns(a), kSpan) << "a union is longer than the wall time";
    ASSERT_EQ(unite(a, b), from(bits_a | bits_b));
    ASSERT_EQ(intersect(a, b), from(bits_a & bits_b));
    ASSERT_EQ(subtract(a, b), from(bits_a & ~bits_b));
    ASSERT_EQ(clip(a, window), from(bits_a & bitmap({window})));
    for (int moment = 0; moment < kSpan; ++moment) {
      ASSERT_EQ(contains(a, moment), bits_a[static_cast<std::size_t>(moment)]);
    }
  }
}

}  // namespace
}  // namespace steplens
