#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace steplens {

/// What a waiting loop is asked to do by the user (Ctrl-C).
enum class StopRequest : std::uint8_t { kNone, kGently, kAtOnce };

/// A child process to run.
struct ProcessSpec {
  std::vector<std::string> command;  // command[0]: path of the executable; no search in PATH.
  std::vector<std::pair<std::string, std::string>> environment;  // Added to ours, or in its place.
  std::filesystem::path output_file;  // stdout and stderr are also kept there; empty: nowhere.
  double timeout_s = 600;
  double grace_s = 2;  // Between SIGTERM and SIGKILL.
};

enum class ProcessEnd : std::uint8_t {
  kExited,
  kSignaled,    // Died by a signal that we did not send.
  kTimeout,     // Stopped by us after `timeout_s`.
  kStopped,     // Stopped by us because of a StopRequest.
  kNotStarted,  // The executable could not be started.
};

/// How a child ended and what it used.
struct ProcessResult {
  ProcessEnd end = ProcessEnd::kNotStarted;
  int exit_code = 0;  // If kExited.
  int signal = 0;     // If kSignaled.
  double wall_s = 0;  // Start to exit.
  double user_s = 0;
  double system_s = 0;
  std::int64_t max_resident_bytes = 0;
  std::vector<std::string> last_lines;  // Of stdout and stderr together: at most 40.
  std::string why_not_started;
};

/// Runs `spec` to its end. Blocks; call from the thread that lives as long as the program, because
/// the kernel kills the child when its parent thread ends.
///
/// The child leads a process group of its own, so Ctrl-C reaches only us; it reads /dev/null. A
/// timeout and a gentle stop send SIGTERM to the group and SIGKILL `grace_s` later; kAtOnce sends
/// SIGKILL. What is left of the group is killed when the child has ended. If we die, even by
/// SIGKILL, the child is killed.
ProcessResult run_process(const ProcessSpec& spec,
                          const std::function<StopRequest()>& stop_request = {});

/// Runs processes that belong together, such as the ranks of a block, to the end of all of them.
/// Once one ends otherwise than by exit code 0, could not be started, or `timeout_s` of the first
/// is over, the rest are stopped as `run_process` stops; they end as kStopped (kTimeout). One
/// result a spec, in order. Else the rules of `run_process`.
std::vector<ProcessResult> run_processes(const std::vector<ProcessSpec>& specs,
                                         const std::function<StopRequest()>& stop_request = {});

/// A child that was started ahead and waits for one line on its standard input: what it does before
/// reading, such as loading libraries, is done by the time it is needed.
class WaitingProcess {
 public:
  /// nullptr if it could not be started. Same rules as `run_process`, except for the input.
  static std::unique_ptr<WaitingProcess> start(ProcessSpec spec);
  /// Kills it if it still waits.
  ~WaitingProcess();
  WaitingProcess(const WaitingProcess&) = delete;
  WaitingProcess& operator=(const WaitingProcess&) = delete;

  /// False once it has ended by itself: it cannot be released then.
  bool is_waiting();

  /// Sends `line` and runs the child to its end. Wall time and timeout count from here; CPU times
  /// from its start. Call once.
  ProcessResult release(const std::string& line,
                        const std::function<StopRequest()>& stop_request = {});

  /// Sends `line` to each of `processes`, which all wait, and runs them to the end of all of them
  /// by the rules of `run_processes`. One result a process, in order. Call once.
  static std::vector<ProcessResult> release_together(
      const std::vector<std::unique_ptr<WaitingProcess>>& processes, const std::string& line,
      const std::function<StopRequest()>& stop_request = {});

 private:
  struct State;
  explicit WaitingProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// "SIGSEGV"; "signal 99" for one without a name.
std::string signal_name(int signal);

}  // namespace steplens
