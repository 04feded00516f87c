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
using testing::IsEmpty;
using testing::SizeIs;

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
  ahead.start_program("quick", {shell("touch $STEPLENS_START_AHEAD; read path; echo got $path")});
  ahead.start_program("slow", {shell("sleep 0.3; echo loaded > " + log +
                                     "; touch $STEPLENS_START_AHEAD; read path; echo got $path")});
  ahead.wait_until_loaded();
  EXPECT_EQ(read_file(log), "loaded\n");
  for (const std::string key : {"slow", "quick"}) {
    const auto processes = ahead.take(key).processes;
    ASSERT_THAT(processes, SizeIs(1)) << key;
    EXPECT_THAT(processes.front()->release("config of " + key).last_lines,
                ElementsAre("got config of " + key));
    EXPECT_THAT(ahead.take(key).processes, IsEmpty()) << key;
  }
}

TEST_F(AheadProcessesTest, ForgetsAProgramThatDoesNotWait) {
  AheadProcesses ahead(site_);
  ahead.start_program("impatient", {shell("echo STEPLENS_BLOCK_CONFIG is not set; exit 2")});
  ahead.wait_until_loaded();
  EXPECT_THAT(ahead.take("impatient").processes, IsEmpty());
}

TEST_F(AheadProcessesTest, StartsOneProcessAKey) {
  TemporaryFolder folder;
  const std::string log = (folder.path() / "log").string();
  const ProcessSpec spec =
      shell("echo started >> " + log + "; touch $STEPLENS_START_AHEAD; read path");
  AheadProcesses ahead(site_);
  ahead.start_program("arm", {spec});
  ahead.start_program("arm", {spec});
  ahead.wait_until_loaded();
  EXPECT_EQ(read_file(log), "started\n");
  EXPECT_THAT(ahead.take("another").processes, IsEmpty());
}

TEST_F(AheadProcessesTest, DoesNotWaitForAWorker) {
  AheadProcesses ahead(site_);
  ahead.start_worker("", {shell("[ $STEPLENS_START_AHEAD = 1 ] && read path && echo got $path")});
  ahead.wait_until_loaded();  // It makes no file.
  const auto processes = ahead.take("").processes;
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_THAT(processes.front()->release("a block").last_lines, ElementsAre("got a block"));
}

TEST_F(AheadProcessesTest, KeepsTheOutputUntilItsBlocksFolderIsKnown) {
  const char* program = "echo before; touch $STEPLENS_START_AHEAD; read path; echo got $path";
  ProcessSpec spec = shell(program);
  spec.output_file = "output.log";  // Of a block that nobody knows yet.
  AheadProcesses ahead(site_);
  ahead.start_program("arm", {spec});
  ahead.start_program("silent", {shell(program)});
  ahead.wait_until_loaded();
  const AheadProcesses::Taken taken = ahead.take("arm");
  ASSERT_THAT(taken.processes, SizeIs(1));
  taken.processes.front()->release("a block");
  EXPECT_EQ(read_file(taken.output_file), "before\ngot a block\n");
  EXPECT_FALSE(std::filesystem::exists("output.log"));
  const AheadProcesses::Taken silent = ahead.take("silent");
  silent.processes.at(0)->release("another");
  EXPECT_TRUE(silent.output_file.empty());
}

TEST_F(AheadProcessesTest, StopsWaitingWhenTheUserDoes) {
  site_.stop_request = [] { return StopRequest::kGently; };
  AheadProcesses ahead(site_);
  ahead.start_program("slow", {shell("read path")});
  ahead.wait_until_loaded();
  EXPECT_THAT(ahead.take("slow").processes, SizeIs(1));
}

TEST_F(AheadProcessesTest, StartsNothingWhereTheSiteCannot) {
  site_.start_waiting = nullptr;
  AheadProcesses ahead(site_);
  ahead.start_program("arm", {shell("read path")});
  ahead.wait_until_loaded();
  EXPECT_THAT(ahead.take("arm").processes, IsEmpty());
}

TEST_F(AheadProcessesTest, StartsTheRanksOfABlockTogether) {
  TemporaryFolder folder;
  const std::string log = (folder.path() / "log").string();
  ProcessSpec first = shell("touch $STEPLENS_START_AHEAD; read path; echo rank 0 got $path");
  first.output_file = "output.log";
  const ProcessSpec second = shell("sleep 0.3; echo loaded > " + log +
                                   "; touch $STEPLENS_START_AHEAD; read path; echo 1 got $path");
  AheadProcesses ahead(site_);
  ahead.start_program("arm", {first, second});
  ahead.wait_until_loaded();
  EXPECT_EQ(read_file(log), "loaded\n");  // The slower rank too.
  const AheadProcesses::Taken taken = ahead.take("arm");
  ASSERT_THAT(taken.processes, SizeIs(2));
  const auto results = WaitingProcess::release_together(taken.processes, "a block");
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_THAT(results[0].last_lines, ElementsAre("rank 0 got a block"));
  EXPECT_THAT(results[1].last_lines, ElementsAre("1 got a block"));
  EXPECT_EQ(read_file(taken.output_file), "rank 0 got a block\n");
}

TEST_F(AheadProcessesTest, ForgetsRanksOfWhichOneDoesNotWait) {
  AheadProcesses ahead(site_);
  ahead.start_program("arm", {shell("touch $STEPLENS_START_AHEAD; read path"), shell("exit 2")});
  ahead.start_worker("half", {shell("read path"), {.command = {"/no/such/program"}}});
  ahead.wait_until_loaded();
  EXPECT_THAT(ahead.take("arm").processes, IsEmpty());
  EXPECT_THAT(ahead.take("half").processes, IsEmpty());
}

TEST(CanWait, ArmsBesideTheBlockProtocol) {
  const fs::path arms = fs::path(STEPLENS_SOURCE_DIR) / "scripts" / "arms";
  EXPECT_TRUE(can_wait({(arms / "torch_step.py").string()}));
  EXPECT_FALSE(can_wait({"/bin/sh"}));
  EXPECT_FALSE(can_wait({"/bin/sh", (arms / "torch_step.py").string()}));
}

}  // namespace
}  // namespace steplens
