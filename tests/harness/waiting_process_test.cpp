#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include "harness/process.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

class WaitingProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = fs::temp_directory_path() / ("steplens-waiting-" + std::to_string(::getpid()));
    fs::remove(file_);
  }
  void TearDown() override { fs::remove(file_); }

  static ProcessSpec shell(const std::string& script) {
    return {.command = {"/bin/sh", "-c", script}, .timeout_s = 30};
  }
  // Waits until the child has written its first line.
  std::string first_line() const {
    std::string line;
    while (line.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::ifstream stream(file_);
      std::getline(stream, line);
    }
    return line;
  }

  fs::path file_;
};

TEST_F(WaitingProcessTest, HasStartedBeforeItIsReleasedAndReadsTheLine) {
  const auto process = WaitingProcess::start(
      shell("echo ready > " + file_.string() + "; read line; echo got $line"));
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(first_line(), "ready");
  const ProcessResult result = process->release("a/path with spaces");
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.last_lines, (std::vector<std::string>{"got a/path with spaces"}));
}

TEST_F(WaitingProcessTest, LeavesNoChildBehindWhenItIsNeverReleased) {
  auto process = WaitingProcess::start(shell("echo $$ > " + file_.string() + "; read line; :"));
  ASSERT_NE(process, nullptr);
  const pid_t pid = std::stoi(first_line());
  EXPECT_EQ(::kill(pid, 0), 0);
  process.reset();
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(WaitingProcessTest, SaysHowAChildEndedThatDiedWhileItWaited) {
  const auto process = WaitingProcess::start(shell("echo gone > " + file_.string() + "; exit 3"));
  ASSERT_NE(process, nullptr);
  first_line();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const ProcessResult result = process->release("too late");  // Writes to a closed pipe.
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_code, 3);
}

TEST_F(WaitingProcessTest, CountsItsTimeoutFromTheRelease) {
  ProcessSpec spec = shell("echo ready > " + file_.string() + "; read line; echo $line");
  spec.timeout_s = 2;
  const auto process = WaitingProcess::start(spec);
  ASSERT_NE(process, nullptr);
  first_line();
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_EQ(process->release("in time").end, ProcessEnd::kExited);
}

TEST_F(WaitingProcessTest, StopsTheOtherRanksOnceOneBreaks) {
  std::vector<std::unique_ptr<WaitingProcess>> ranks;
  ranks.push_back(WaitingProcess::start(shell("read line; exec sleep 1000")));
  ranks.push_back(WaitingProcess::start(shell("read line; echo broken by $line; exit 3")));
  const auto results = WaitingProcess::release_together(ranks, "a block");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].end, ProcessEnd::kStopped);
  EXPECT_LT(results[0].wall_s, 15);
  EXPECT_EQ(results[1].exit_code, 3);
  EXPECT_EQ(results[1].last_lines, (std::vector<std::string>{"broken by a block"}));
}

TEST_F(WaitingProcessTest, IsNullForAnExecutableThatIsNotThere) {
  EXPECT_EQ(WaitingProcess::start({.command = {"/no/such/program"}}), nullptr);
}

}  // namespace
}  // namespace steplens
