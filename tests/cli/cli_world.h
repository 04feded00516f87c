#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/bundle.h"
#include "harness/files.h"
#include "harness/temporary_folder.h"

namespace steplens::testing_support {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// How the program ended and what it printed.
struct CliResult {
  int exit_code = -1;
  int signal = 0;
  std::string out;
  std::string err;
};

/// The program while it runs.
class CliProcess {
 public:
  CliProcess(pid_t pid, std::filesystem::path out, std::filesystem::path err)
      : pid_(pid),
        out_(std::move(out)),
        err_(std::move(err)) {}

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }

  /// Absent while it runs.
  std::optional<CliResult> poll() { return collect(WNOHANG); }
  CliResult wait() { return *collect(0); }
  std::string err_so_far() const { return text_of(err_); }

 private:
  // Empty where the program was killed before it had opened the file.
  static std::string text_of(const std::filesystem::path& path) {
    return std::filesystem::exists(path) ? read_file(path) : "";
  }

  std::optional<CliResult> collect(int options) {
    int status = 0;
    if (::waitpid(pid_, &status, options) != pid_) return std::nullopt;
    CliResult result{.out = text_of(out_), .err = text_of(err_)};
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    return result;
  }

  pid_t pid_;
  std::filesystem::path out_;
  std::filesystem::path err_;
};

/// A folder in which the program runs against fake_block in the place of steplens-worker.
class CliWorld {
 public:
  CliWorld() {
    std::ofstream(data()) << "tokens";
    write_json_atomically(folder_ / "data.json",
                          {{"name", "test-corpus"}, {"sha256", "abc"}, {"max_token", 256}});
  }
  CliWorld(const CliWorld&) = delete;
  CliWorld& operator=(const CliWorld&) = delete;

  std::filesystem::path folder() const { return folder_; }
  std::filesystem::path data() const { return folder_ / "data.bin"; }
  std::filesystem::path bundle() const { return folder_ / "bundle"; }

  /// Largest file that the program may write; 0: no limit.
  rlim_t max_file_bytes = 0;

  CliProcess start(const std::vector<std::string>& arguments, const Environment& extra = {}) {
    const std::string number = std::to_string(num_runs_++);
    const std::filesystem::path out = folder_ / ("out-" + number);
    const std::filesystem::path err = folder_ / ("err-" + number);
    std::vector<std::string> words = {STEPLENS_CLI_PATH};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("fork failed");
    if (pid == 0) {
      redirect(out, STDOUT_FILENO);
      redirect(err, STDERR_FILENO);
      ::setenv("STEPLENS_WORKER", STEPLENS_FAKE_BLOCK_PATH, 1);
      ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
      ::unsetenv("STEPLENS_FAKE");
      for (const auto& [name, value] : extra) ::setenv(name.c_str(), value.c_str(), 1);
      if (max_file_bytes > 0) {
        const rlimit limit{max_file_bytes, max_file_bytes};
        ::setrlimit(RLIMIT_FSIZE, &limit);
      }
      if (::chdir(folder_.c_str()) != 0) ::_exit(126);
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    return {pid, out, err};
  }

  CliResult run(const std::vector<std::string>& arguments, const Environment& extra = {}) {
    return start(arguments, extra).wait();
  }

  /// A matrix of three arms on the CPU into `bundle()`, with more arguments behind it.
  std::vector<std::string> matrix(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"matrix",
                                          "--device",
                                          "cpu",
                                          "--data",
                                          data().string(),
                                          "--out",
                                          bundle().string(),
                                          "--toggles",
                                          "attention=math,injected_spin=1ms",
                                          "--trace-steps",
                                          "0",
                                          "--no-memory"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Manifest manifest() const {
    const std::filesystem::path path = bundle() / "manifest.json";
    return manifest_from_json(read_json(path), path.string());
  }

  /// The arm's row of results.json.
  nlohmann::json result_of(std::string_view arm) const {
    const nlohmann::json results = read_json(bundle() / "results.json");
    for (const nlohmann::json& row : results.at("arms")) {
      if (row.at("name") == arm) return row;
    }
    throw std::runtime_error("no such arm in results.json");
  }

 private:
  static void redirect(const std::filesystem::path& path, int target) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ::dup2(fd, target) < 0) ::_exit(125);
  }

  // In memory where possible: every block is synced to the disk several times.
  TemporaryFolder temporary_{"steplens-cli",
                             std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : ""};
  std::filesystem::path folder_ = temporary_.path();
  int num_runs_ = 0;
};

inline int num_lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

/// Waits up to half a minute until `holds` returns true; the machine may be busy.
template <typename F>
bool eventually(F&& holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace steplens::testing_support
