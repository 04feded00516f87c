#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/gemm/search.h"

namespace steplens {
namespace {

struct Cell {
  int x = 0;
  int y = 0;
  bool operator==(const Cell&) const = default;
};

using Points = std::vector<TimedPoint<Cell>>;

// A valley whose floor is (6, 3): 10 us there, 1 us more a step away from it.
double valley_us(const Cell& cell) { return 10 + std::abs(cell.x - 6) + std::abs(cell.y - 3); }

// All cells of the 10 x 10 grid that differ in one coordinate, itself among them.
std::vector<Cell> cross(const Cell& cell) {
  std::vector<Cell> cells;
  for (int i = 0; i < 10; ++i) {
    cells.push_back({i, cell.y});
    cells.push_back({cell.x, i});
  }
  return cells;
}

Cell best_of(const Points& points) {
  return std::ranges::min_element(points, {}, &TimedPoint<Cell>::time_us)->point;
}

TEST(WidenSearch, ReachesTheBestOneSettingAtATimeAndTimesNoPointTwice) {
  Points points{{.point = {0, 0}, .time_us = valley_us({0, 0}), .is_offered = true},
                {.point = {9, 9}, .time_us = valley_us({9, 9}), .is_offered = true}};
  std::map<std::pair<int, int>, int> num_timed;
  const auto time_us = [&](const Cell& cell) {
    ++num_timed[{cell.x, cell.y}];
    return valley_us(cell);
  };
  // From (0, 0) and (9, 9), both 19 us, along one coordinate: 13 us at (6, 0).
  widen_search(points, 1, cross, time_us);
  EXPECT_EQ(best_of(points), (Cell{6, 0}));
  EXPECT_EQ(points.size(), 2U + 18U);
  widen_search(points, 1, cross, time_us);
  EXPECT_EQ(best_of(points), (Cell{6, 3}));
  for (const auto& [cell, count] : num_timed) {
    EXPECT_EQ(count, 1) << cell.first << ' ' << cell.second;
  }
  EXPECT_FALSE(num_timed.contains({0, 0})) << "timed before";
  EXPECT_TRUE(points[0].is_offered);
  EXPECT_FALSE(points[2].is_offered);
}

TEST(WidenSearch, EndsWhereNothingIsLeftAndPassesOverWhatCannotRun) {
  Points points{{.point = {0, 0}, .time_us = HUGE_VAL}, {.point = {1, 1}, .time_us = 5}};
  int num_expanded = 0;
  widen_search(
      points, 10,
      [&](const Cell& cell) {
        ++num_expanded;
        EXPECT_EQ(cell, (Cell{1, 1}));
        return std::vector<Cell>{{2, 2}};
      },
      [](const Cell&) { return HUGE_VAL; });
  EXPECT_EQ(num_expanded, 1);
  EXPECT_EQ(points.size(), 3U);
}

TEST(Finalists, KeepTheFirstAndTheFastestOfBothKinds) {
  const auto point = [](int x, double us, bool is_offered) {
    return TimedPoint<Cell>{.point = {x, 0}, .time_us = us, .is_offered = is_offered};
  };
  const Points chosen = finalists<Cell>(
      {point(0, 9, true), point(1, 4, true), point(2, 3, true), point(3, 8, true),
       point(4, HUGE_VAL, false), point(5, 2, false), point(6, 1, false), point(7, 5, false)},
      2, 2);
  std::vector<int> order;
  for (const auto& p : chosen) order.push_back(p.point.x);
  EXPECT_EQ(order, (std::vector<int>{0, 6, 5, 2, 1}));
  EXPECT_TRUE(finalists<Cell>({}, 2, 2).empty());
}

}  // namespace
}  // namespace steplens
