#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/trace/columns.h"
#include "harness/trace/crc32c.h"

namespace steplens {
namespace {

using testing::HasSubstr;

using Codes = std::vector<std::uint64_t>;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

EncodedColumn encoded(std::string& payload, const Codes& codes) {
  payload.clear();
  append_column(payload, 9, codes, kMax - 12345);
  const auto columns = split_columns(bytes_of(payload));
  EXPECT_EQ(columns.size(), 1u);
  EXPECT_EQ(columns.at(0).header.id, 9);
  return columns.at(0);
}

Codes decoded(const EncodedColumn& column, std::size_t num_rows) {
  ColumnDecoder decoder(column, num_rows);
  Codes codes(num_rows);
  for (std::size_t row = 0; row < num_rows;) {
    // Batches of any size must do.
    const std::size_t count = std::min<std::size_t>(num_rows - row, row % 3 == 0 ? 256 : 100);
    decoder.next(std::span(codes).subspan(row, count));
    row += count;
  }
  decoder.finish();
  return codes;
}

struct Example {
  const char* name;
  Encoding encoding;
  int width;
  Codes codes;
};

std::vector<Example> examples() {
  std::mt19937_64 random(3);
  std::vector<Example> list = {{"constant", Encoding::kConstant, 0, Codes(700, kMax)},
                               {"one row", Encoding::kConstant, 0, {42}},
                               {"wide", Encoding::kDictionary, 0, Codes(700, 0)},
                               {"runs", Encoding::kRuns, 0, Codes(700, 5)},
                               {"rising", Encoding::kDeltaPlanes, 2, Codes(700)}};
  for (std::size_t i = 0; i < 700; i += 2) list[2].codes[i] = kMax - i % 256;
  for (std::size_t i = 300; i < 700; ++i) list[3].codes[i] = kMax;
  std::uint64_t code = kMax - 4;  // Wraps around.
  for (std::uint64_t& rising : list[4].codes) rising = code += 128 + random() % 1000;
  for (int width = 1; width <= 8; ++width) {
    Example planes{"planes", Encoding::kPlanes, width, Codes(700)};
    const std::uint64_t largest = kMax >> (64 - 8 * width);
    const std::uint64_t base = width < 8 ? 1000 : 0;
    for (std::uint64_t& any : planes.codes) any = base + (random() & largest);
    planes.codes[0] = base;
    planes.codes[1] = base + largest;
    list.push_back(planes);
  }
  return list;
}

TEST(AppendColumn, PicksAnEncodingThatGivesTheCodesBack) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(testing::Message() << example.name << " " << example.width);
    std::string payload;
    const EncodedColumn column = encoded(payload, example.codes);
    EXPECT_EQ(column.header.encoding, example.encoding);
    EXPECT_EQ(column.header.width, example.width);
    EXPECT_EQ(decoded(column, example.codes.size()), example.codes);
  }
}

TEST(AppendColumn, GivesBackAnyCodesOfAnyLength) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 500; ++round) {
    Codes codes(1 + random() % 600);
    const std::uint64_t mask = kMax >> (random() % 64);
    const std::uint64_t step = random() >> (random() % 64);
    std::uint64_t code = random();
    for (std::uint64_t& value : codes) {
      if (random() % 4 == 0) code = random() & mask;
      value = code += step;
    }
    std::string payload;
    ASSERT_EQ(decoded(encoded(payload, codes), codes.size()), codes) << round;
  }
}

TEST(AppendColumn, LeavesOutWhatIsAbsentAndReturnsTheLargestCode) {
  std::string payload;
  EXPECT_EQ(append_column(payload, 1, Codes{7, 7, 7}, 7), 7u);
  EXPECT_TRUE(payload.empty());
  EXPECT_EQ(append_column(payload, 1, Codes{7, 9, 7}, 7), 9u);
  EXPECT_FALSE(payload.empty());
}

std::string fault_of_column(const ColumnHeader& header, const std::string& bytes,
                            std::size_t num_rows) {
  try {
    decoded({.header = header, .bytes = bytes_of(bytes)}, num_rows);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(ColumnDecoder, NamesWhatIsWrongWithDamagedBytes) {
  using std::string_literals::operator""s;
  const auto fault = [](Encoding encoding, const std::string& bytes, int width = 0) {
    return fault_of_column({.encoding = encoding, .width = static_cast<std::uint8_t>(width)}, bytes,
                           3);
  };
  EXPECT_THAT(fault(Encoding::kConstant, "a"), HasSubstr("1 bytes for 3 rows, not 0"));
  EXPECT_THAT(fault(Encoding::kPlanes, "abc", 0), HasSubstr("width 0"));
  EXPECT_THAT(fault(Encoding::kPlanes, "abc", 9), HasSubstr("width 9"));
  EXPECT_THAT(fault(Encoding::kPlanes, "abcde", 2), HasSubstr("5 bytes for 3 rows, not 6"));
  EXPECT_THAT(fault(Encoding::kRuns, ""), HasSubstr("ends inside a number"));
  EXPECT_THAT(fault(Encoding::kRuns, "\x02\x80"), HasSubstr("ends inside a number"));
  EXPECT_THAT(fault(Encoding::kRuns, "\x02\x00"s), HasSubstr("run of no rows"));
  EXPECT_THAT(fault(Encoding::kRuns, "\x02\x04"), HasSubstr("runs go on after row 3"));
  EXPECT_THAT(fault(Encoding::kRuns, "\x02\x03\x01"), HasSubstr("runs go on after row 3"));
  EXPECT_THAT(fault(Encoding::kRuns, std::string(11, '\xff')), HasSubstr("more than 64 bits"));
  EXPECT_EQ(fault(Encoding::kRuns, "\x02\x03"), "");
  EXPECT_THAT(fault(Encoding::kDictionary, ""), HasSubstr("empty dictionary"));
  EXPECT_THAT(fault(Encoding::kDictionary, "\x05\x01"), HasSubstr("ends inside a number"));
  EXPECT_THAT(fault(Encoding::kDictionary, "\x01\x05\x05\x00\x01"s), HasSubstr("2 bytes for 3"));
  EXPECT_THAT(fault(Encoding::kDictionary, "\x01\x05\x05\x00\x01\x02"s),
              HasSubstr("row 2: entry 2 of a dictionary of 2"));
  EXPECT_EQ(fault(Encoding::kDictionary, "\x01\x05\x05\x00\x01\x01"s), "");
  EXPECT_THAT(fault(Encoding::kBytes, "abc"), HasSubstr("encoding 5"));
  EXPECT_THAT(fault(static_cast<Encoding>(77), "abc"), HasSubstr("encoding 77"));
}

TEST(SplitColumns, RefusesWhatIsCutOrThereTwice) {
  std::string payload;
  append_column(payload, 1, Codes{1, 2, 300}, 0);
  const std::string one = payload;
  for (std::size_t length = 1; length < one.size(); ++length) {
    EXPECT_THROW(split_columns(bytes_of(one).first(length)), ConfigError) << length;
  }
  const std::string two = one + one;
  EXPECT_THROW(split_columns(bytes_of(two)), ConfigError);
}

TEST(Crc32c, IsTheKnownOne) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8A9136AAu);  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62A8AB43u);
}

}  // namespace
}  // namespace steplens
