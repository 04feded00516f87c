#include "harness/run_site.h"

#include "tests/harness/fake_site.h"
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

TEST(UtcText, WritesMillisecondsAndReadsThemBack) {
  // 1,700,000,000 s after 1970 is 14 November 2023, 22:13:20 UTC (date -u -d @1700000000).
  EXPECT_EQ(utc_text(1'700'000'000.25), "2023-11-14T22:13:20.250Z");
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00.000Z");
  EXPECT_DOUBLE_EQ(unix_time_of("2023-11-14T22:13:20.250Z"), 1'700'000'000.25);
  EXPECT_DOUBLE_EQ(unix_time_of("2024-02-29T00:00:00Z"), 1'709'164'800);
}

TEST(UnixTimeOf, RefusesOtherFormats) {
  for (const char* text : {"", "2023-11-14", "2023-11-14T22:13:20", "2023-11-14T22:13:20+01:00"}) {
    EXPECT_THROW(unix_time_of(text), ConfigError) << text;
  }
}

TEST(SleepUnlessStopped, SleepsTheWholeTime) {
  testing_support::FakeWorld world;
  const double start_s = world.now_s;
  EXPECT_TRUE(world.site().sleep_unless_stopped(2.05));
  EXPECT_NEAR(world.now_s - start_s, 2.05, 1e-6);
}

TEST(SleepUnlessStopped, WakesUpForAStop) {
  testing_support::FakeWorld world;
  const double start_s = world.now_s;
  world.on_sleep = [&] {
    if (world.now_s - start_s > 1) world.stop = StopRequest::kGently;
  };
  EXPECT_FALSE(world.site().sleep_unless_stopped(100));
  EXPECT_LT(world.now_s - start_s, 1.3);
}

}  // namespace
}  // namespace steplens
