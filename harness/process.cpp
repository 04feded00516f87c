#include "harness/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/error.h"

extern char** environ;  // POSIX leaves its declaration to the program.

namespace steplens {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxLines = 40;        // A Python traceback with its message fits.
constexpr std::size_t kMaxLineBytes = 1000;  // A child that prints no newline must not grow us.
constexpr int kStopPollMs = 100;             // Longest delay of Ctrl-C; 10 wake-ups a second.
constexpr int kNoPidfdPollMs = 20;           // Kernels before 5.3 do not announce a child's end.

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string cause(int error) { return std::error_code(error, std::generic_category()).message(); }

// A file descriptor that closes itself.
class OwnedFd {
 public:
  OwnedFd() = default;
  [[nodiscard]] explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() { reset(); }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  OwnedFd read_end;
  OwnedFd write_end;
};

Pipe make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
    throw DeviceError(fmt::format("cannot start a process: pipe: {}", cause(errno)));
  }
  return {OwnedFd(fds[0]), OwnedFd(fds[1])};
}

// The last lines of a stream, bounded in number and length.
class LineTail {
 public:
  void append(std::string_view text) {
    for (const char c : text) {
      if (c == '\n') {
        finish_line();
      } else if (line_.size() < kMaxLineBytes) {
        line_ += c;
      }
    }
  }
  std::vector<std::string> take() {
    if (!line_.empty()) finish_line();
    return {lines_.begin(), lines_.end()};
  }

 private:
  void finish_line() {
    lines_.push_back(std::exchange(line_, {}));
    if (lines_.size() > kMaxLines) lines_.pop_front();
  }
  std::deque<std::string> lines_;
  std::string line_;
};

// Our environment with the additions in place, as execve wants it.
std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced =
        std::ranges::any_of(additions, [&](const auto& pair) { return pair.first == name; });
    if (!is_replaced) result.emplace_back(text);
  }
  for (const auto& [name, value] : additions) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Runs in the child, between fork and exec: only async-signal-safe calls, no allocation.
[[noreturn]] void become(char* const* argv, char* const* envp, int input_fd, int output_fd,
                         int error_fd, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // It died before the line above.
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(input_fd, STDIN_FILENO) >= 0 && ::dup2(output_fd, STDOUT_FILENO) >= 0 &&
      ::dup2(output_fd, STDERR_FILENO) >= 0) {
    ::execve(argv[0], argv, envp);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

// One running child: its pipe, its end, and the signals it is due.
class Child {
 public:
  Child(const ProcessSpec& spec, ProcessResult& result) : spec_(spec), result_(result) {}

  // False if it could not be started; `why_not_started` then says why. With `waits` its input is a
  // pipe, for `release`.
  bool start(bool waits = false) {
    SL_CHECK(!spec_.command.empty());
    std::vector<std::string> arguments = spec_.command;
    std::vector<std::string> environment = merged_environment(spec_.environment);
    const std::vector<char*> argv = pointers_to(arguments);
    const std::vector<char*> envp = pointers_to(environment);
    Pipe input;
    if (waits) {
      input = make_pipe();
    } else {
      input.read_end = OwnedFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
    Pipe output = make_pipe();
    Pipe error = make_pipe();
    if (!spec_.output_file.empty()) {
      log_ = OwnedFd(
          ::open(spec_.output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    }

    start_ = Clock::now();
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      become(argv.data(), envp.data(), input.read_end.get(), output.write_end.get(),
             error.write_end.get(), parent);
    }
    if (pid_ < 0) {
      result_.why_not_started = fmt::format("cannot fork: {}", cause(errno));
      return false;
    }
    ::setpgid(pid_, pid_);  // Also here: a signal to the group may be due before the child ran.
    output.write_end.reset();
    error.write_end.reset();
    int exec_error = 0;
    ssize_t count = 0;
    do {
      count = ::read(error.read_end.get(), &exec_error, sizeof exec_error);
    } while (count < 0 && errno == EINTR);
    if (count == sizeof exec_error) {
      ::waitpid(pid_, nullptr, 0);
      result_.why_not_started = cause(exec_error);
      return false;
    }
    input_ = std::move(input.write_end);
    output_ = std::move(output.read_end);
    ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
#ifdef SYS_pidfd_open
    pidfd_ = OwnedFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
#endif
    return true;
  }

  // Sends the line that a waiting child waits for; its age counts from now. A child that died
  // meanwhile shows by its end.
  void release(const std::string& line) {
    start_ = Clock::now();
    // A child that died while it waited has closed its end: that must not end us too.
    struct sigaction previous{};
    struct sigaction ignored{};
    ignored.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignored, &previous);
    [[maybe_unused]] const ssize_t written = ::write(input_.get(), line.data(), line.size());
    ::sigaction(SIGPIPE, &previous, nullptr);
    input_.reset();
  }

  // Waits until something happens or `poll_ms` is over, reads output, notices the end.
  bool has_ended(int poll_ms = kStopPollMs) {
    std::array<pollfd, 2> watched{};
    nfds_t num_watched = 0;
    if (output_.is_open()) watched.at(num_watched++) = {output_.get(), POLLIN, 0};
    if (pidfd_.is_open()) watched.at(num_watched++) = {pidfd_.get(), POLLIN, 0};
    ::poll(watched.data(), num_watched,
           pidfd_.is_open() ? poll_ms : std::min(poll_ms, kNoPidfdPollMs));
    read_output();
    return reap();
  }

  double age_s() const { return seconds_since(start_); }
  void signal_group(int number) const { ::kill(-pid_, number); }

  // Call once after the end: what the group left behind is killed, the last output read.
  void finish() {
    signal_group(SIGKILL);
    read_output();
    result_.last_lines = tail_.take();
  }

 private:
  void read_output() {
    std::array<char, 4096> buffer;
    // Bounded: a child that never stops printing must not keep us from its timeout.
    for (int chunk = 0; output_.is_open() && chunk < 256; ++chunk) {
      const ssize_t count = ::read(output_.get(), buffer.data(), buffer.size());
      if (count > 0) {
        const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
        tail_.append(text);
        // A log that cannot be written (disk full) must not end the measurement.
        if (log_.is_open() && ::write(log_.get(), text.data(), text.size()) < 0) log_.reset();
      } else if (count == 0) {
        output_.reset();
      } else if (errno != EINTR) {
        break;  // EAGAIN: nothing more for now.
      }
    }
  }

  bool reap() {
    int status = 0;
    rusage usage{};
    const pid_t reaped = ::wait4(pid_, &status, WNOHANG, &usage);
    if (reaped == 0 || (reaped < 0 && errno == EINTR)) return false;
    SL_CHECK(reaped == pid_);
    result_.wall_s = age_s();
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    result_.user_s = seconds(usage.ru_utime);
    result_.system_s = seconds(usage.ru_stime);
    result_.max_resident_bytes = std::int64_t{1024} * usage.ru_maxrss;  // Linux counts in KiB.
    if (WIFSIGNALED(status)) {
      result_.end = ProcessEnd::kSignaled;
      result_.signal = WTERMSIG(status);
    } else {
      result_.end = ProcessEnd::kExited;
      result_.exit_code = WEXITSTATUS(status);
    }
    return true;
  }

  const ProcessSpec& spec_;
  ProcessResult& result_;
  pid_t pid_ = -1;
  OwnedFd input_;
  OwnedFd output_;
  OwnedFd pidfd_;
  OwnedFd log_;
  Clock::time_point start_;
  LineTail tail_;
};

// Watches a started child to its end, and stops it where it must be stopped.
void run_to_end(Child& child, const ProcessSpec& spec, ProcessResult& result,
                const std::function<StopRequest()>& stop_request) {
  std::optional<ProcessEnd> stopped_by_us;
  double kill_after_s = 0;
  bool is_killed = false;
  while (!child.has_ended()) {
    const StopRequest request = stop_request ? stop_request() : StopRequest::kNone;
    if (!stopped_by_us && (request != StopRequest::kNone || child.age_s() >= spec.timeout_s)) {
      stopped_by_us = request != StopRequest::kNone ? ProcessEnd::kStopped : ProcessEnd::kTimeout;
      child.signal_group(SIGTERM);
      kill_after_s = child.age_s() + spec.grace_s;
    }
    if (stopped_by_us && !is_killed &&
        (request == StopRequest::kAtOnce || child.age_s() >= kill_after_s)) {
      child.signal_group(SIGKILL);
      is_killed = true;
    }
  }
  child.finish();
  if (stopped_by_us) result.end = *stopped_by_us;
}

// One of several children that belong together.
struct Member {
  Child* child;
  ProcessResult* result;
  bool runs;  // Still; false from the start for one that could not be started.
};

// The rules of run_processes, with `spec` for the timeout and the grace of all.
void run_together_to_end(std::vector<Member>& members, const ProcessSpec& spec,
                         const std::function<StopRequest()>& stop_request) {
  const auto signal_running = [&](int number) {
    for (const Member& member : members) {
      if (member.runs) member.child->signal_group(number);
    }
  };
  const auto start = Clock::now();
  const int poll_ms = std::max(1, kStopPollMs / static_cast<int>(members.size()));
  std::optional<ProcessEnd> end_of_rest;  // Of those that still run, once we stop them.
  double kill_after_s = 0;
  bool is_killed = false;
  if (!std::ranges::all_of(members, &Member::runs)) {
    end_of_rest = ProcessEnd::kStopped;
    signal_running(SIGKILL);
  }
  while (std::ranges::any_of(members, &Member::runs)) {
    bool has_broken = false;
    for (Member& member : members) {
      if (!member.runs || !member.child->has_ended(poll_ms)) continue;
      member.runs = false;
      member.child->finish();
      ProcessResult& result = *member.result;
      if (end_of_rest) {
        result.end = *end_of_rest;
      } else {
        has_broken |= result.end != ProcessEnd::kExited || result.exit_code != 0;
      }
    }
    const StopRequest request = stop_request ? stop_request() : StopRequest::kNone;
    const double age_s = seconds_since(start);
    const bool is_late = age_s >= spec.timeout_s;
    if (!end_of_rest && (has_broken || is_late || request != StopRequest::kNone)) {
      end_of_rest = request == StopRequest::kNone && !has_broken ? ProcessEnd::kTimeout
                                                                 : ProcessEnd::kStopped;
      signal_running(SIGTERM);
      kill_after_s = age_s + spec.grace_s;
    }
    if (end_of_rest && !is_killed &&
        (request == StopRequest::kAtOnce || seconds_since(start) >= kill_after_s)) {
      signal_running(SIGKILL);
      is_killed = true;
    }
  }
}

}  // namespace

ProcessResult run_process(const ProcessSpec& spec,
                          const std::function<StopRequest()>& stop_request) {
  ProcessResult result;
  Child child(spec, result);
  if (child.start()) run_to_end(child, spec, result, stop_request);
  return result;
}

std::vector<ProcessResult> run_processes(const std::vector<ProcessSpec>& specs,
                                         const std::function<StopRequest()>& stop_request) {
  std::vector<ProcessResult> results(specs.size());
  std::deque<Child> children;
  std::vector<Member> members;
  bool all_started = true;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    Child& child = children.emplace_back(specs[i], results[i]);
    const bool runs = all_started && child.start();
    all_started = all_started && runs;
    members.push_back({&child, &results[i], runs});
  }
  if (!specs.empty()) run_together_to_end(members, specs.front(), stop_request);
  return results;
}

struct WaitingProcess::State {
  explicit State(ProcessSpec process_spec) : spec(std::move(process_spec)), child(spec, result) {}
  ProcessSpec spec;
  ProcessResult result;
  Child child;
  bool is_running = false;
};

WaitingProcess::WaitingProcess(std::unique_ptr<State> state) : state_(std::move(state)) {}

std::unique_ptr<WaitingProcess> WaitingProcess::start(ProcessSpec spec) {
  auto state = std::make_unique<State>(std::move(spec));
  if (!state->child.start(/*waits=*/true)) return nullptr;
  state->is_running = true;
  return std::unique_ptr<WaitingProcess>(new WaitingProcess(std::move(state)));
}

WaitingProcess::~WaitingProcess() {
  if (!state_->is_running) return;
  state_->child.signal_group(SIGKILL);
  while (!state_->child.has_ended()) {
  }
}

bool WaitingProcess::is_waiting() {
  if (state_->is_running && state_->child.has_ended(/*poll_ms=*/0)) {
    state_->child.finish();
    state_->is_running = false;
  }
  return state_->is_running;
}

ProcessResult WaitingProcess::release(const std::string& line,
                                      const std::function<StopRequest()>& stop_request) {
  SL_CHECK(state_->is_running);
  state_->child.release(line + "\n");
  run_to_end(state_->child, state_->spec, state_->result, stop_request);
  state_->is_running = false;
  return state_->result;
}

std::vector<ProcessResult> WaitingProcess::release_together(
    const std::vector<std::unique_ptr<WaitingProcess>>& processes, const std::string& line,
    const std::function<StopRequest()>& stop_request) {
  SL_CHECK(!processes.empty());
  std::vector<Member> members;
  for (const auto& process : processes) {
    State& state = *process->state_;
    SL_CHECK(state.is_running);
    state.child.release(line + "\n");
    members.push_back({&state.child, &state.result, true});
  }
  run_together_to_end(members, processes.front()->state_->spec, stop_request);
  std::vector<ProcessResult> results;
  for (const auto& process : processes) {
    process->state_->is_running = false;
    results.push_back(process->state_->result);
  }
  return results;
}

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation)
                                 : fmt::format("signal {}", signal);
}

}  // namespace steplens
