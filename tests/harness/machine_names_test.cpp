#include "harness/machine_names.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

TEST(WithoutMachineNames, CutsAbsolutePathsToTheirLastPart) {
  EXPECT_EQ(without_machine_names("File \"/home/me/a/train.py\", line 3", ""),
            "File \"train.py\", line 3");
  EXPECT_EQ(without_machine_names("/usr/lib/libc.so.6(abort+0x12b)", ""), "libc.so.6(abort+0x12b)");
  EXPECT_EQ(without_machine_names("open(path=/data/x.bin): denied", ""),
            "open(path=x.bin): denied");
  EXPECT_EQ(without_machine_names("in /tmp/", ""), "in tmp");
}

TEST(WithoutMachineNames, LeavesWhatIsNoAbsolutePath) {
  for (const char* text : {"3 tokens/s", "a / b", "https://pytorch.org/docs", "blocks/0001/x", "",
                           "and/or", "./run.sh", "../x"}) {
    EXPECT_EQ(without_machine_names(text, ""), text);
  }
}

TEST(WithoutMachineNames, HidesTheHost) {
  EXPECT_EQ(without_machine_names("node17: out of memory on node17.", "node17"),
            "host: out of memory on host.");
  EXPECT_EQ(without_machine_names("node170 is another", "node17"), "node170 is another");
}

}  // namespace
}  // namespace steplens
