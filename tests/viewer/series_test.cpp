#include <algorithm>
#include <atomic>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/reports/trace_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "viewer/data/background_task.h"
#include "viewer/data/counter_series.h"
#include "viewer/data/memory_series.h"

namespace steplens {
namespace {

TEST(CounterSeries, ExtentOfAnyStretchIsThatOfTheSamplesInForce) {
  std::mt19937 random(1);
  std::vector<CounterSeries::Point> points;
  std::int64_t time_ns = 100;
  for (int i = 0; i < 3000; ++i) {
    points.push_back({time_ns, static_cast<double>(random() % 1000)});
    time_ns += 1 + static_cast<std::int64_t>(random() % 50);
  }
  const CounterSeries series("power", "W", "", points);
  for (int i = 0; i < 500; ++i) {
    const std::int64_t start_ns = 50 + static_cast<std::int64_t>(random() % 70'000);
    const std::int64_t end_ns = start_ns + 1 + static_cast<std::int64_t>(random() % 5000);
    double min = std::numeric_limits<double>::max();
    double max = -1;
    for (std::size_t k = 0; k < points.size(); ++k) {
      const std::int64_t until_ns =
          k + 1 < points.size() ? points[k + 1].time_ns : std::numeric_limits<std::int64_t>::max();
      if (points[k].time_ns >= end_ns || until_ns <= start_ns) continue;
      min = std::min(min, points[k].value);
      max = std::max(max, points[k].value);
    }
    const auto extent = series.extent_within(start_ns, end_ns);
    ASSERT_EQ(extent.has_value(), max >= 0);
    if (!extent) continue;
    EXPECT_EQ(*extent, (CounterSeries::Extent{min, max}));
  }
}

TEST(CounterSeries, HasNoValueBeforeItsFirstSample) {
  const CounterSeries series("power", "W", "", {{100, 5}, {200, 7}});
  EXPECT_FALSE(series.value_at(99).has_value());
  EXPECT_EQ(series.value_at(100), 5);
  EXPECT_EQ(series.value_at(199), 5);
  EXPECT_EQ(series.value_at(1000), 7);
  EXPECT_FALSE(series.extent_within(0, 100).has_value());
  EXPECT_FALSE(CounterSeries("x", "", "no permission", {}).extent_within(0, 100).has_value());
}

Alloc action(AllocAction kind, std::int64_t time_ns, std::uint64_t address, std::int64_t bytes,
             MemoryOwner owner = MemoryOwner::kUnknown) {
  return {.time_ns = time_ns, .address = address, .bytes = bytes, .action = kind, .owner = owner};
}

Trace some_memory() {
  Trace trace;
  trace.allocs = {action(AllocAction::kAlloc, 10, 1, 1000, MemoryOwner::kParameters),
                  action(AllocAction::kAlloc, 20, 2, 500, MemoryOwner::kActivations),
                  action(AllocAction::kFree, 30, 2, 500),
                  action(AllocAction::kAlloc, 40, 3, 200, MemoryOwner::kGradients)};
  return trace;
}

TEST(MemorySeries, HasAPointForEachActionAndThePeak) {
  const auto series = memory_series(some_memory());
  ASSERT_TRUE(series.has_value());
  ASSERT_EQ(series->points.size(), 4U);
  EXPECT_EQ(sum_of(series->points[1].by_owner), 1500);
  EXPECT_EQ(bytes_of(series->points[3].by_owner, MemoryOwner::kGradients), 200);
  EXPECT_EQ(series->use.peak.allocated_bytes(), 1500);
  EXPECT_EQ(series->use.peak.time_ns, 20);
  EXPECT_EQ(series->at(25), 1U);
  EXPECT_FALSE(series->at(9).has_value());
  EXPECT_EQ(series->largest_within(0, 100), 1U);
  EXPECT_EQ(series->largest_within(30, 100), 3U);
  EXPECT_EQ(series->largest_within(15, 16), 0U);  // Nothing happens; the first is in force.
  EXPECT_FALSE(memory_series(Trace()).has_value());
}

TEST(MemorySeries, LargestOfAnyStretchIsFound) {
  Trace trace;
  std::mt19937 random(2);
  std::vector<std::int64_t> totals;
  std::int64_t total = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto bytes = static_cast<std::int64_t>(1 + random() % 1000);
    trace.allocs.push_back(
        action(AllocAction::kAlloc, static_cast<std::int64_t>(10 * i), i, bytes));
    total += bytes;
    if (i > 0 && random() % 2 == 0) {
      const Alloc& victim = trace.allocs[trace.allocs.size() - 2];
      if (victim.action == AllocAction::kAlloc) {
        trace.allocs.back() = action(AllocAction::kFree, static_cast<std::int64_t>(10 * i),
                                     victim.address, victim.bytes);
        total += -bytes - victim.bytes;
      }
    }
    totals.push_back(total);
  }
  const auto series = memory_series(trace);
  ASSERT_EQ(series->points.size(), totals.size());
  for (int i = 0; i < 300; ++i) {
    const std::size_t first = random() % 1900;
    const std::size_t last = first + random() % 100;
    const auto largest = series->largest_within(static_cast<std::int64_t>(10 * first),
                                                static_cast<std::int64_t>(10 * last + 1));
    ASSERT_TRUE(largest.has_value());
    EXPECT_EQ(totals[*largest],
              *std::max_element(totals.begin() + static_cast<std::ptrdiff_t>(first),
                                totals.begin() + static_cast<std::ptrdiff_t>(last) + 1));
  }
}

TEST(AllocatedSeries, FollowsTheSignsOfTheActions) {
  const auto series = allocated_series(some_memory());
  ASSERT_TRUE(series.has_value());
  EXPECT_EQ(series->value_at(20), 1500);
  EXPECT_EQ(series->value_at(45), 1200);
}

TEST(BackgroundTask, GivesItsResultOnce) {
  BackgroundTask<int> task;
  EXPECT_FALSE(task.take().has_value());
  task.start([](LoadProgress&) { return 42; });
  while (task.is_running()) std::this_thread::yield();
  EXPECT_EQ(task.take(), 42);
  EXPECT_FALSE(task.take().has_value());
}

TEST(BackgroundTask, GivesTheErrorInstead) {
  BackgroundTask<int> task;
  task.start([](LoadProgress&) -> int { throw std::runtime_error("no such file"); });
  while (task.is_running()) std::this_thread::yield();
  EXPECT_FALSE(task.take().has_value());
  EXPECT_EQ(task.error(), "no such file");
}

TEST(BackgroundTask, IsCancelledAndWaitedForWhenItGoes) {
  std::atomic<bool> has_ended = false;
  {
    BackgroundTask<int> task;
    task.start([&](LoadProgress& progress) {
      while (!progress.is_cancelled()) std::this_thread::yield();
      has_ended = true;
      return 0;
    });
  }
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace steplens
