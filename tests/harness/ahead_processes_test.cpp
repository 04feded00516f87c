#include "harness/ahead_processes.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/files.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class AheadProcessesTest : public testing::Test {
 protected:
  static ProcessSpec shell(const std::string& script) {
    return {.command = {"/bin/sh", "-c", script}, .timeout_s = 30};
  }

  RunSite site_ = {.start_waiting = &WaitingProcess::start,
                   .stop_request = [] { return StopRequest::kNone; },
                   .now_s =
                       [] {
                         const auto now = std::chrono::system_clock::now().time_since_epoch();
                         return std::chrono::duration<double>(now).count();
                       },
                   .sleep_s =
                       [](double duration_s) {
                         std::this_thread::sleep_for(std::chrono::duration<double>(duration_s));
                       }};
};

TEST_F(AheadProcessesTest, WaitsUntilAllHaveLoaded) {
  TemporaryFolder folder;
  const std::string log = (folder.path() / "log").string();
  AheadProcesses ahead(site_);
  ahead.start_program("quick", shell("touch $STEPLENS_START_AHEAD; read path; echo got $path"));
  ahead.start_program("slow", shell("sleep 0.3; echo loaded > " + log +
                                    "; touch $STEPLENS_START_AHEAD; read path; echo got $path"));
  ahead.wait_until_loaded();
  EXPECT_EQ(read_file(log), "loaded\n");
  for (const std::string key : {"slow", "quick"}) {
    const auto process = ahead.take(key).process;
    ASSERT_NE(process, nullptr) << key;
    EXPECT_THAT(process->release("config of " + key).last_lines,
                ElementsAre("got config of " + key));
    EXPECT_EQ(ahead.take(key).process, nullptr) << key;
  }
}

TEST_F(AheadProcessesTest, ForgetsAProgramThatDoesNotWait) {
  AheadProcesses ahead(site_);
  ahead.start_program("impatient", shell("echo STEPLENS_BLOCK_CONFIG is not set; exit 2"));
  ahead.wait_until_loaded();
  EXPECT_EQ(ahead.take("impatient").process, nullptr);
}

TEST_F(AheadProcessesTest, StartsOneProcessAKey) {
  TemporaryFolder folder;
  const std::string log = (folder.path() / "log").string();
  const ProcessSpec spec =
      shell("echo started >> " + log + "; touch $STEPLENS_START_AHEAD; read path");
  AheadProcesses ahead(site_);
  ahead.start_program("arm", spec);
  ahead.start_program("arm", spec);
  ahead.wait_until_loaded();
  EXPECT_EQ(read_file(log), "started\n");
  EXPECT_EQ(ahead.take("another").process, nullptr);
}

TEST_F(AheadProcessesTest, DoesNotWaitForAWorker) {
  AheadProcesses ahead(site_);
  ahead.start_worker("", shell("[ $STEPLENS_START_AHEAD = 1 ] && read path && echo got $path"));
  ahead.wait_until_loaded();  // It makes no file.
  const auto process = ahead.take("").process;
  ASSERT_NE(process, nullptr);
  EXPECT_THAT(process->release("a block").last_lines, ElementsAre("got a block"));
}

TEST_F(AheadProcessesTest, KeepsTheOutputUntilItsBlocksFolderIsKnown) {
  const char* program = "echo before; touch $STEPLENS_START_AHEAD; read path; echo got $path";
  ProcessSpec spec = shell(program);
  spec.output_file = "output.log";  // Of a block that nobody knows yet.
  AheadProcesses ahead(site_);
  ahead.start_program("arm", spec);
  ahead.start_program("silent", shell(program));
  ahead.wait_until_loaded();
  const AheadProcesses::Taken taken = ahead.take("arm");
  ASSERT_NE(taken.process, nullptr);
  taken.process->release("a block");
  EXPECT_EQ(read_file(taken.output_file), "before\ngot a block\n");
  EXPECT_FALSE(std::filesystem::exists("output.log"));
  const AheadProcesses::Taken silent = ahead.take("silent");
  silent.process->release("another");
  EXPECT_TRUE(silent.output_file.empty());
}

TEST_F(AheadProcessesTest, StopsWaitingWhenTheUserDoes) {
  site_.stop_request = [] { return StopRequest::kGently; };
  AheadProcesses ahead(site_);
  ahead.start_program("slow", shell("read path"));
  ahead.wait_until_loaded();
  EXPECT_NE(ahead.take("slow").process, nullptr);
}

TEST_F(AheadProcessesTest, StartsNothingWhereTheSiteCannot) {
  site_.start_waiting = nullptr;
  AheadProcesses ahead(site_);
  ahead.start_program("arm", shell("read path"));
  ahead.wait_until_loaded();
  EXPECT_EQ(ahead.take("arm").process, nullptr);
}

TEST(CanWait, ArmsBesideTheBlockProtocol) {
  const fs::path arms = fs::path(STEPLENS_SOURCE_DIR) / "scripts" / "arms";
  EXPECT_TRUE(can_wait({(arms / "torch_step.py").string()}));
  EXPECT_FALSE(can_wait({"/bin/sh"}));
  EXPECT_FALSE(can_wait({"/bin/sh", (arms / "torch_step.py").string()}));
}

}  // namespace
}  // namespace steplens
