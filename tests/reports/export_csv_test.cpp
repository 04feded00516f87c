#include <filesystem>
#include <string>

#include "tests/reports/export_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/files.h"
#include "reports/export/csv.h"

namespace steplens {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(WriteCsv, HasARowPerOperation) {
  const TemporaryFolder folder;
  write_csv(folder.path() / "ops.csv", two_launches());
  EXPECT_THAT(
      read_file(folder.path() / "ops.csv"),
      EndsWith("range\r\n"
               "1000,1500,500,kernel,mm_kernel,mm_kernel,0,7,1,,,,,,4,2,1,128,1,1,32,1024,2048,0,,"
               "forward,range,step/forward\r\n"
               "1500,1750,250,kernel,add_kernel,add_kernel,0,7,2,77,,,,,,,,,,,,,,0,1,,none,\r\n"
               "1600,1700,100,copy,Memcpy HtoD (Pinned -> Device),,0,20,,,4096,h2d,pinned,device,"
               ",,,,,,,,,0,,,none,\r\n"));
}

TEST(WriteCsv, QuotesWhatHasCommasQuotesOrLines) {
  const TemporaryFolder folder;
  TraceBuilder builder;
  builder.kernel("a,\"b\"\nc", 0, 1, 0);
  write_csv(folder.path() / "ops.csv", builder.trace());
  EXPECT_THAT(read_file(folder.path() / "ops.csv"), HasSubstr(",\"a,\"\"b\"\"\nc\","));
}

}  // namespace
}  // namespace steplens
