#include "reports/format.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(FormatSignificant, RoundsToTheDigitsAndKeepsTrailingZeros) {
  EXPECT_EQ(format_significant(294'134), "294,100");
  EXPECT_EQ(format_significant(111.4432), "111.4");
  EXPECT_EQ(format_significant(34.0, 3), "34.0");
  EXPECT_EQ(format_significant(0.00123456), "0.001235");
  EXPECT_EQ(format_significant(-1'234'567, 2), "-1,200,000");
  EXPECT_EQ(format_significant(0), "0");
}

TEST(FormatSignificant, CountsTheDigitsAfterRounding) {
  EXPECT_EQ(format_significant(9999.96), "10,000");
  EXPECT_EQ(format_significant(999.96), "1,000");
  EXPECT_EQ(format_significant(0.99996), "1.000");
}

TEST(FormatSignificant, NeverPrintsMoreThanFourDigits) {
  EXPECT_EQ(format_significant(123'456, 6), "123,500");
}

TEST(FormatSignificant, PrintsWhatIsNotFiniteAsAbsent) {
  EXPECT_EQ(format_significant(kNan), "-");
  EXPECT_EQ(format_duration_ns(kInfinity), "-");
  EXPECT_EQ(format_percent(kNan), "-");
  EXPECT_EQ(format_p(kNan), "-");
}

TEST(FormatCount, IsExact) {
  EXPECT_EQ(format_count(1'364'200'448), "1,364,200,448");
  EXPECT_EQ(format_count(-999), "-999");
}

TEST(FormatMeanCount, IsExactWhereItIsWhole) {
  EXPECT_EQ(format_mean_count(12'345), "12,345");
  EXPECT_EQ(format_mean_count(1.5), "1.500");
}

TEST(FormatDeviation, KeepsTwoDigits) {
  EXPECT_EQ(format_deviation(9.14e-5), "9.1e-05");
  EXPECT_EQ(format_deviation(0), "0");
  EXPECT_EQ(format_deviation(kInfinity), "not finite");
}

TEST(FormatDuration, PicksTheUnit) {
  EXPECT_EQ(format_duration_ns(111'443'200), "111.4 ms");
  EXPECT_EQ(format_duration_ns(64'900), "64.90 us");
  EXPECT_EQ(format_duration_ns(2e9), "2.000 s");
  EXPECT_EQ(format_duration_ns(512), "512 ns");
  EXPECT_EQ(format_duration_ns(999'960), "1.000 ms");
  EXPECT_EQ(format_duration_ns(200e9), "3 min 20 s");
}

TEST(FormatLongDuration, UsesMinutesAndHours) {
  EXPECT_EQ(format_long_duration_ns(45e9), "45 s");
  EXPECT_EQ(format_long_duration_ns(65e9), "1 min 05 s");
  EXPECT_EQ(format_long_duration_ns(3720e9), "1 h 02 min");
}

TEST(FormatBytes, UsesGibibytesFromAThousandMebibytesOn) {
  EXPECT_EQ(format_bytes(34.0 * 1024 * 1024 * 1024), "34.0 GiB");
  EXPECT_EQ(format_bytes(115.2 * 1024 * 1024), "115 MiB");
  EXPECT_EQ(format_bytes(1010.0 * 1024 * 1024), "0.986 GiB");
  EXPECT_EQ(format_bytes(32768), "32.0 KiB");
  EXPECT_EQ(format_bytes(-512), "-512 B");
  EXPECT_EQ(format_bytes(0), "0 B");
}

TEST(FormatPercent, KeepsThreeDigits) {
  EXPECT_EQ(format_percent(0.2371), "23.7 %");
  EXPECT_EQ(format_percent(0.00081), "0.0810 %");
}

TEST(FormatEffect, LetsTheIntervalDecideTheDigits) {
  EXPECT_EQ(format_effect(1.0312, 1.0290, 1.0330), "+3.1 % [2.9, 3.3]");
  EXPECT_EQ(format_effect(1.0312, 1.0307, 1.0317), "+3.12 % [3.07, 3.17]");
  EXPECT_EQ(format_effect(0.52, 0.49, 0.55), "-48 % [-51, -45]");
}

TEST(FormatEffect, KeepsASecondDigitOfAHalfWidthThatBeginsWithOne) {
  EXPECT_EQ(format_effect(1.0312, 1.0296, 1.0328), "+3.12 % [2.96, 3.28]");
}

TEST(FormatEffect, NeverPrintsMoreThanFourDigits) {
  EXPECT_EQ(format_effect(1.1234567, 1.1234, 1.1235), "+12.35 % [12.34, 12.35]");
  EXPECT_EQ(format_effect(21.5, 21.4999, 21.5001), "+2,050 % [2,050, 2,050]");
}

TEST(FormatEffect, GivesWhatRoundsToZeroNoSign) {
  EXPECT_EQ(format_effect(0.99999, 0.998, 1.002), "0.0 % [-0.2, 0.2]");
  EXPECT_EQ(format_effect(1.00001, 0.998, 1.002), "0.0 % [-0.2, 0.2]");
}

TEST(FormatEffect, PrintsNoBracketsWithoutAnInterval) {
  EXPECT_EQ(format_effect(1.0312, std::nullopt, std::nullopt), "+3.1 %");
  EXPECT_EQ(format_effect(1.0312, 0.0, kInfinity), "+3.1 %");
}

TEST(FormatChange, KeepsTwoDigits) {
  EXPECT_EQ(format_change(0.9876), "-1.2 %");
  EXPECT_EQ(format_change(1.000123), "+0.012 %");
  EXPECT_EQ(format_change(1), "0 %");
}

TEST(FormatP, KeepsThreeDecimalsAndOneDigitBelow) {
  EXPECT_EQ(format_p(0.0125), "0.013");
  EXPECT_EQ(format_p(1), "1.000");
  EXPECT_EQ(format_p(0.000488), "0.0005");
  EXPECT_EQ(format_p(0.00002), "0.00002");
}

TEST(FormatByKey, ReadsTheUnitFromTheKey) {
  EXPECT_EQ(format_by_key("memory_bytes", 2147483648), "2.00 GiB");
  EXPECT_EQ(format_by_key("sm_clock_mhz", 1980), "1,980 MHz");
  EXPECT_EQ(format_by_key("is_ecc_on", true), "yes");
  EXPECT_EQ(format_by_key("num_cpus", 16), "16");
  EXPECT_EQ(format_by_key("driver", "580.1"), "580.1");
  EXPECT_EQ(format_by_key("governor", nullptr), "-");
}

TEST(FormatQuotient, HasThreeDecimalsOrNothing) {
  EXPECT_EQ(format_quotient(3.0, 2.0), "1.500");
  EXPECT_EQ(format_quotient(std::nullopt, 2.0), "-");
  EXPECT_EQ(format_quotient(3.0, std::nullopt), "-");
  EXPECT_EQ(format_quotient(3.0, 0.0), "-");
}

}  // namespace
}  // namespace steplens
