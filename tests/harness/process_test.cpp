#include "harness/process.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/files.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

ProcessSpec shell(const std::string& script) { return {.command = {"/bin/sh", "-c", script}}; }

fs::path temporary_path(const std::string& name) {
  return fs::path(testing::TempDir()) / (name + "-" + std::to_string(::getpid()));
}

// A process that has ended and was not waited for still has an entry in /proc, as a zombie.
bool is_running(int pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stream, text);
  const auto end_of_name = text.rfind(')');
  return end_of_name != std::string::npos && text.at(end_of_name + 2) != 'Z';
}

// Waits up to ten seconds; the machine that runs the tests may be busy.
bool ends_soon(int pid) {
  for (int i = 0; i < 1000; ++i) {
    if (!is_running(pid)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int read_pid(const fs::path& path) {
  for (int i = 0; i < 1000 && (!fs::exists(path) || fs::file_size(path) == 0); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  int pid = 0;
  std::ifstream(path) >> pid;
  return pid;
}

TEST(RunProcess, ReturnsExitCodeAndOutputOfBothStreams) {
  const ProcessResult result = run_process(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.last_lines, ElementsAre("out", "err"));
}

TEST(RunProcess, NamesTheSignalThatKilledTheChild) {
  const ProcessResult result = run_process(shell("kill -SEGV $$"));
  EXPECT_EQ(result.end, ProcessEnd::kSignaled);
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(signal_name(result.signal), "SIGSEGV");
}

TEST(RunProcess, SaysWhyAProgramCannotStart) {
  const ProcessResult missing = run_process({.command = {"/nowhere/at/all"}});
  EXPECT_EQ(missing.end, ProcessEnd::kNotStarted);
  EXPECT_THAT(missing.why_not_started, HasSubstr("No such file"));
  const ProcessResult folder = run_process({.command = {"/tmp"}});
  EXPECT_EQ(folder.end, ProcessEnd::kNotStarted);
  EXPECT_THAT(folder.why_not_started, HasSubstr("Permission denied"));
}

TEST(RunProcess, KeepsTheLastFortyLinesAndAnUnfinishedOne) {
  const ProcessResult result = run_process(
      shell("i=1; while [ $i -le 100 ]; do echo line $i; i=$((i+1)); done; printf end"));
  ASSERT_EQ(result.last_lines.size(), 40U);
  EXPECT_EQ(result.last_lines.front(), "line 62");
  EXPECT_EQ(result.last_lines.back(), "end");
}

TEST(RunProcess, CutsLinesWithoutEnd) {
  const ProcessResult result = run_process(shell("head -c 1000000 /dev/zero | tr '\\0' x"));
  ASSERT_EQ(result.last_lines.size(), 1U);
  EXPECT_EQ(result.last_lines[0], std::string(1000, 'x'));
}

TEST(RunProcess, WritesAllOutputToAFile) {
  const fs::path path = temporary_path("process-output");
  ProcessSpec spec = shell("i=1; while [ $i -le 50 ]; do echo $i; i=$((i+1)); done");
  spec.output_file = path;
  run_process(spec);
  const std::string text = read_file(path);
  EXPECT_TRUE(text.starts_with("1\n2\n"));
  EXPECT_TRUE(text.ends_with("49\n50\n"));
  fs::remove(path);
}

TEST(RunProcess, AddsAndReplacesEnvironmentVariables) {
  ::setenv("STEPLENS_TEST_OLD", "ours", 1);
  ::setenv("STEPLENS_TEST_KEPT", "kept", 1);
  ProcessSpec spec = shell("echo $STEPLENS_TEST_OLD $STEPLENS_TEST_NEW $STEPLENS_TEST_KEPT");
  spec.environment = {{"STEPLENS_TEST_OLD", "replaced"}, {"STEPLENS_TEST_NEW", "added"}};
  EXPECT_THAT(run_process(spec).last_lines, ElementsAre("replaced added kept"));
}

TEST(RunProcess, GivesTheChildAnEmptyInput) {
  EXPECT_THAT(run_process(shell("cat; echo done")).last_lines, ElementsAre("done"));
}

TEST(RunProcess, MeasuresCpuTimeAndMemory) {
  // The busy loop burns CPU in the child itself; head and tr hold a buffer of 32 MiB in memory.
  const ProcessResult result = run_process(shell(
      "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 32m /dev/zero | sort -S 64m "
      ">/dev/null"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_GT(result.user_s + result.system_s, 0.01);
  EXPECT_GT(result.max_resident_bytes, 30 << 20);
  EXPECT_GE(result.wall_s, 0.01);
}

TEST(RunProcess, StopsAChildThatTakesTooLong) {
  ProcessSpec spec = shell("trap 'echo told; exit 0' TERM; while :; do sleep 0.05; done");
  spec.timeout_s = 0.3;
  const ProcessResult result = run_process(spec);
  EXPECT_EQ(result.end, ProcessEnd::kTimeout);
  EXPECT_THAT(result.last_lines, Contains("told"));  // SIGTERM came first.
}

TEST(RunProcess, KillsAChildThatIgnoresTheStop) {
  ProcessSpec spec = shell("trap '' TERM; while :; do sleep 0.05; done");
  spec.timeout_s = 0.2;
  spec.grace_s = 0.2;
  EXPECT_EQ(run_process(spec).end, ProcessEnd::kTimeout);
}

TEST(RunProcess, StopsTheWholeGroup) {
  const fs::path path = temporary_path("process-group");
  ProcessSpec spec = shell("sleep 100 & echo $! > " + path.string() + "; wait");
  spec.timeout_s = 0.5;
  EXPECT_EQ(run_process(spec).end, ProcessEnd::kTimeout);
  EXPECT_TRUE(ends_soon(read_pid(path)));
  fs::remove(path);
}

TEST(RunProcess, KillsWhatTheChildLeftBehind) {
  const fs::path path = temporary_path("process-left");
  // The grandchild keeps the pipe open: the end of the child must not wait for it.
  const ProcessResult result = run_process(shell("sleep 100 & echo $! > " + path.string()));
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_LT(result.wall_s, 50);
  EXPECT_TRUE(ends_soon(read_pid(path)));
  fs::remove(path);
}

TEST(RunProcess, StopsGentlyWhenAskedTo) {
  int num_asked = 0;
  const ProcessResult result =
      run_process(shell("trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done"),
                  [&] { return ++num_asked > 3 ? StopRequest::kGently : StopRequest::kNone; });
  EXPECT_EQ(result.end, ProcessEnd::kStopped);
  EXPECT_THAT(result.last_lines, IsSupersetOf({"ready", "told"}));
}

TEST(RunProcess, KillsWithoutGraceWhenAskedTwice) {
  ProcessSpec spec = shell("trap '' TERM; while :; do sleep 0.05; done");
  spec.grace_s = 1000;
  int num_asked = 0;
  const ProcessResult result = run_process(spec, [&] {
    ++num_asked;
    return num_asked < 3 ? StopRequest::kNone
                         : (num_asked < 6 ? StopRequest::kGently : StopRequest::kAtOnce);
  });
  EXPECT_EQ(result.end, ProcessEnd::kStopped);
  EXPECT_LT(result.wall_s, 500);
}

TEST(RunProcess, LeavesNoZombie) {
  run_process(shell("exit 0"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(RunProcess, TakesTheChildAlongWhenItsParentIsKilled) {
  const fs::path path = temporary_path("process-orphan");
  const pid_t parent = ::fork();
  if (parent == 0) {
    run_process(shell("echo $$ > " + path.string() + "; exec sleep 100"));
    ::_exit(0);
  }
  const int child = read_pid(path);
  ASSERT_GT(child, 0);
  EXPECT_TRUE(is_running(child));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(ends_soon(child));
  fs::remove(path);
}

TEST(RunProcess, LetsTheChildLeadItsOwnGroup) {
  const ProcessResult result = run_process(shell("ps -o pgid= -p $$ | tr -d ' '; echo $$"));
  ASSERT_EQ(result.last_lines.size(), 2U);
  EXPECT_EQ(result.last_lines[0], result.last_lines[1]);
  EXPECT_NE(result.last_lines[0], std::to_string(::getpgrp()));
}

TEST(SignalName, NamesUnknownSignalsByNumber) { EXPECT_EQ(signal_name(99), "signal 99"); }

}  // namespace
}  // namespace steplens
