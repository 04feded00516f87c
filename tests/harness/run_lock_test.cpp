#include "harness/run_lock.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/temporary_folder.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class RunLockTest : public testing::Test {
 protected:
  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(RunLockTest, HoldsUntilItDies) {
  auto lock = std::make_unique<RunLock>(folder_);
  EXPECT_THAT([&] { RunLock second(folder_); },
              ThrowsMessage<ConfigError>(HasSubstr("another steplens is running")));
  lock.reset();
  EXPECT_FALSE(fs::exists(folder_ / ".lock"));
  EXPECT_NO_THROW(RunLock third(folder_));
}

TEST_F(RunLockTest, IsFreeAfterItsHolderWasKilled) {
  const pid_t holder = ::fork();
  if (holder == 0) {
    const RunLock lock(folder_);
    std::ofstream(folder_ / "ready") << "yes";
    while (true) ::pause();
  }
  while (!fs::exists(folder_ / "ready")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THROW(RunLock lock(folder_), ConfigError);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(fs::exists(folder_ / ".lock"));  // It had no chance to remove it.
  EXPECT_NO_THROW(RunLock lock(folder_));
}

TEST_F(RunLockTest, SaysThatAFolderCannotBeWritten) {
  EXPECT_THAT([&] { RunLock lock(folder_ / "missing"); },
              ThrowsMessage<ConfigError>(HasSubstr("cannot write")));
}

}  // namespace
}  // namespace steplens
