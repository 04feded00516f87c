#include "viewer/draw/time_axis.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels_of(const TimeAxis& axis, float gap) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks_of(axis, gap)) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

TEST(TimeAxis, ZoomKeepsWhatIsUnderTheCursor) {
  TimeAxis axis{.start_ns = 1e6, .ns_per_px = 100, .left = 200, .width = 1000};
  for (const double factor : {1.25, 0.5, 40.0, 1e-3}) {
    const double before_ns = axis.ns_of(700);
    axis.zoom_at(700, factor);
    EXPECT_NEAR(axis.ns_of(700), before_ns, 1e-3);
  }
}

TEST(TimeAxis, ZoomEndsSomewhere) {
  TimeAxis axis{.start_ns = 0, .ns_per_px = 1, .left = 0, .width = 100};
  for (int i = 0; i < 500; ++i) axis.zoom_at(50, 2);
  EXPECT_GT(axis.ns_per_px, 0);
  for (int i = 0; i < 500; ++i) axis.zoom_at(50, 0.5);
  EXPECT_TRUE(std::isfinite(axis.start_ns) && std::isfinite(axis.ns_per_px));
}

TEST(TimeAxis, ShowsAStretchWithItsMargin) {
  TimeAxis axis{.left = 10, .width = 1000};
  axis.show(100, 1100, 0.1);
  EXPECT_DOUBLE_EQ(axis.start_ns, 0);
  EXPECT_DOUBLE_EQ(axis.ns_per_px, 1.2);
  EXPECT_FLOAT_EQ(axis.x_of(1200), 1010);
  axis.show(5, 5);  // Nothing is still a nanosecond wide.
  EXPECT_GT(axis.ns_per_px, 0);
}

TEST(Ticks, AreRoundAndSayTheirUnit) {
  EXPECT_THAT(labels_of({.start_ns = -1e6, .ns_per_px = 1e4, .left = 0, .width = 1000}, 190),
              ElementsAre("0", "2 ms", "4 ms", "6 ms", "8 ms"));
  EXPECT_THAT(labels_of({.start_ns = 0, .ns_per_px = 0.5, .left = 0, .width = 1000}, 100),
              ElementsAre("0", "50 ns", "100 ns", "150 ns", "200 ns", "250 ns", "300 ns", "350 ns",
                          "400 ns", "450 ns", "500 ns"));
}

TEST(Ticks, FarFromZeroHaveEnoughDecimals) {
  // 200 ns apart around 1.234 s.
  const auto labels =
      labels_of({.start_ns = 1'234'000'000, .ns_per_px = 1, .left = 0, .width = 500}, 200);
  EXPECT_THAT(labels, ElementsAre("1.2340000 s", "1.2340002 s", "1.2340004 s"));
}

TEST(Ticks, KeepTheirDistance) {
  for (double ns_per_px = 0.02; ns_per_px < 1e9; ns_per_px *= 1.7) {
    const TimeAxis axis{.start_ns = -3, .ns_per_px = ns_per_px, .left = 0, .width = 1600};
    double last = -1e30;
    for (const Tick& tick : ticks_of(axis, 90)) {
      if (tick.label.empty()) continue;
      EXPECT_GE((tick.time_ns - last) / ns_per_px, 89.99);
      last = tick.time_ns;
    }
    EXPECT_GT(last, -1e30);
  }
}

}  // namespace
}  // namespace steplens
