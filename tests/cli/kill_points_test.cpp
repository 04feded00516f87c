// Kills the scheduler just before one of its file operations, each session before another one, so
// that every gap between two of them is hit: after a block's rename and before its entry in the
// manifest, between manifest and folder sync, ...

#include <cerrno>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cli/cli_world.h"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing_support::CliResult;
using testing_support::CliWorld;

constexpr int kNumRounds = 3;
constexpr std::size_t kNumBlocks = 3 + 1 + 3 * kNumRounds;  // Pilots, soak, rounds.
constexpr int kMaxOperations = 60;  // More than a block takes, so that every session gets on.

// Whether the system call that a stopped process is about to make changes the file system.
bool is_file_operation(const __ptrace_syscall_info& info) {
  switch (info.entry.nr) {
#ifdef SYS_rename
    case SYS_rename:
    case SYS_mkdir:
    case SYS_unlink:
    case SYS_rmdir:
#endif
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_mkdirat:
    case SYS_unlinkat:
    case SYS_fsync: return true;
    case SYS_openat: return (info.entry.args[2] & O_CREAT) != 0;
    default: return false;
  }
}

enum class Traced : std::uint8_t { kKilled, kEnded, kNotAllowed };

// Runs the program and kills it before its file operation number `operation`, counted from 0.
Traced run_and_kill(const std::vector<std::string>& arguments, const fs::path& folder,
                    int operation, int& exit_code) {
  std::vector<std::string> words = {STEPLENS_CLI_PATH};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    ::setenv("STEPLENS_WORKER", STEPLENS_FAKE_BLOCK_PATH, 1);
    ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // It cannot look for leaks while traced.
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(126);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFSTOPPED(status)) return Traced::kNotAllowed;
  ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  int num_operations = 0;
  long signal = 0;
  while (true) {
    ::ptrace(PTRACE_SYSCALL, pid, nullptr, signal);
    signal = 0;
    if (::waitpid(pid, &status, 0) != pid) return Traced::kNotAllowed;
    if (!WIFSTOPPED(status)) {
      exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      return Traced::kEnded;
    }
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {  // A signal, not a system call: pass it on.
      signal = WSTOPSIG(status);
      continue;
    }
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !is_file_operation(info)) continue;
    if (num_operations++ == operation) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return Traced::kKilled;
    }
  }
}

void expect_sound(const CliWorld& world) {
  if (!fs::exists(world.bundle() / "manifest.json")) return;
  for (const BlockEntry& entry : world.manifest().blocks) {
    const fs::path path = block_path(world.bundle(), entry);
    ASSERT_TRUE(fs::exists(path)) << path;
    EXPECT_EQ(sha256_file_hex(path), entry.sha256) << path;
  }
}

TEST(Kill, BeforeAnyFileOperationLosesAtMostTheBlockInFlight) {
  int num_kills = 0;
  for (int bundle = 0; bundle < 8; ++bundle) {
    CliWorld world;
    for (int session = 0;; ++session) {
      ASSERT_LT(session, 1000);
      const bool has_begun = fs::exists(world.bundle() / "manifest.json");
      const std::vector<std::string> arguments =
          has_begun ? std::vector<std::string>{"matrix", "--resume", world.bundle().string()}
                    : world.matrix({"--rounds", std::to_string(kNumRounds)});
      // 7 has no divisor in common with the limit: all numbers come up, in another order.
      const int operation = (7 * session + bundle) % kMaxOperations;
      int exit_code = 0;
      const Traced traced = run_and_kill(arguments, world.folder(), operation, exit_code);
      if (traced == Traced::kNotAllowed) GTEST_SKIP() << "this machine forbids ptrace";
      if (traced == Traced::kEnded) {
        ASSERT_EQ(exit_code, 0);
        break;
      }
      ++num_kills;
      expect_sound(world);
      if (HasFailure()) return;
    }
    const Manifest manifest = world.manifest();
    EXPECT_EQ(manifest.blocks.size(), kNumBlocks);  // Nothing that was finished ran again.
    EXPECT_EQ(manifest.rounds.size(), static_cast<std::size_t>(kNumRounds));
    EXPECT_TRUE(manifest.failed_arms.empty());
    const CliResult verified = world.run({"verify", world.bundle().string()});
    EXPECT_EQ(verified.exit_code, 0) << verified.out;
    EXPECT_FALSE(fs::exists(world.folder() / "cache/steplens/runs") &&
                 !fs::is_empty(world.folder() / "cache/steplens/runs"));
    if (HasFailure()) return;
  }
  EXPECT_GE(num_kills, 100);
}

}  // namespace
}  // namespace steplens
