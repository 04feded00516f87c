#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "harness/error.h"
#include "harness/ranks/launch.h"
#include "harness/temporary_folder.h"

namespace steplens {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

ProcessSpec shell(const std::string& script) {
  return {.command = {"/bin/sh", "-c", script}, .timeout_s = 20, .grace_s = 0.5};
}

TEST(RankProcesses, AreOneAGpuAndStayOnTheLoopbackInterface) {
  const RankLauncher launcher = find_rank_launcher(Device::kCuda, 2, {"GPU-a", "GPU-b", "GPU-c"});
  ProcessSpec spec = shell("true");
  spec.environment = {{"CUDA_VISIBLE_DEVICES", "GPU-a"}, {"STEPLENS_BLOCK_CONFIG", "x"}};
  const auto processes = rank_processes(launcher, spec, 2);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_THAT(processes[1].environment, Contains(Pair("RANK", "1")));
  EXPECT_THAT(processes[1].environment, Contains(Pair("WORLD_SIZE", "2")));
  EXPECT_THAT(processes[1].environment, Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-b")).Times(1));
  EXPECT_THAT(processes[1].environment, Contains(Pair("NCCL_SOCKET_IFNAME", "lo")));
  EXPECT_THAT(processes[0].environment, Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-a")).Times(1));
  EXPECT_THAT(processes[0].environment, Contains(Pair("STEPLENS_BLOCK_CONFIG", "x")));
}

TEST(RankProcesses, FindTheProgramsOfOurPathUnderMpirun) {
  RankLauncher launcher;
  try {
    launcher = find_rank_launcher(Device::kCpu, 2, {});
  } catch (const ConfigError& error) {
    GTEST_SKIP() << error.what();
  }
  const TemporaryFolder folder;
  ProcessSpec spec = shell("echo \"PATH=$PATH\"");
  const std::string path = folder.path().string() + ":" + std::getenv("PATH");
  spec.environment = {{"PATH", path}};
  const ProcessResult result = run_process(rank_processes(launcher, spec, 2).front());
  EXPECT_THAT(result.last_lines, Contains("PATH=" + path).Times(2));
}

TEST(FindRankLauncher, RefusesMoreRanksThanGpus) {
  EXPECT_THAT([] { find_rank_launcher(Device::kCuda, 2, {"GPU-a"}); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("ranks=2: NCCL takes one GPU a rank, and this machine has 1")));
}

TEST(RunProcesses, WaitsForAll) {
  const auto results = run_processes({shell("exit 0"), shell("sleep 0.3; echo last")});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].end, ProcessEnd::kExited);
  EXPECT_EQ(results[1].end, ProcessEnd::kExited);
  EXPECT_THAT(results[1].last_lines, Contains("last"));
  EXPECT_EQ(joint_result(results).end, ProcessEnd::kExited);
  EXPECT_EQ(joint_result(results).exit_code, 0);
}

TEST(RunProcesses, StopsTheRestOnceOneBreaks) {
  const TemporaryFolder folder;
  const std::string pid_file = (folder.path() / "pid").string();
  const auto results = run_processes({shell("echo $$ > " + pid_file + "; exec sleep 1000"),
                                      shell("sleep 0.3; kill -9 $$"), shell("exec sleep 1000")});
  EXPECT_EQ(results[0].end, ProcessEnd::kStopped);
  EXPECT_EQ(results[1].end, ProcessEnd::kSignaled);
  EXPECT_EQ(results[1].signal, SIGKILL);
  EXPECT_EQ(results[2].end, ProcessEnd::kStopped);
  EXPECT_LT(results[2].wall_s, 15);
  EXPECT_EQ(joint_result(results).end, ProcessEnd::kSignaled);
  int pid = 0;
  std::ifstream(pid_file) >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_NE(::kill(pid, 0), 0) << "an orphan";
}

TEST(RunProcesses, KillsThoseThatIgnoreTheStop) {
  const auto results =
      run_processes({shell("trap '' TERM; while true; do sleep 0.1; done"), shell("exit 3")});
  EXPECT_EQ(results[0].end, ProcessEnd::kStopped);
  EXPECT_EQ(joint_result(results).exit_code, 3);
}

TEST(RunProcesses, EndsAllAtTheTimeLimit) {
  ProcessSpec slow = shell("exec sleep 1000");
  slow.timeout_s = 0.5;
  const auto results = run_processes({slow, slow});
  EXPECT_EQ(results[0].end, ProcessEnd::kTimeout);
  EXPECT_EQ(results[1].end, ProcessEnd::kTimeout);
}

TEST(RunProcesses, StartsNoneIfOneCannotStart) {
  const auto results = run_processes({shell("exec sleep 1000"), {.command = {"/no/such/program"}}});
  EXPECT_EQ(results[0].end, ProcessEnd::kStopped);
  EXPECT_EQ(results[1].end, ProcessEnd::kNotStarted);
  EXPECT_EQ(joint_result(results).end, ProcessEnd::kNotStarted);
}

}  // namespace
}  // namespace steplens
