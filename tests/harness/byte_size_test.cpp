#include "harness/byte_size.h"

#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

TEST(ParseByteSize, TakesUnitsOfBothKinds) {
  EXPECT_EQ(parse_byte_size("memory", "80GiB"), 85'899'345'920);
  EXPECT_EQ(parse_byte_size("memory", "80 GB"), 80'000'000'000);
  EXPECT_EQ(parse_byte_size("memory", "1.5MiB"), 1'572'864);
  EXPECT_EQ(parse_byte_size("memory", "512"), 512);
}

TEST(ParseByteSize, RefusesEverythingElse) {
  for (const char* text : {"", "GiB", "-1GiB", "0", "80Gib", "80 GiB of it", "nan", "1e40"}) {
    EXPECT_THROW(parse_byte_size("memory", text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace steplens
