#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/machine.h"
#include "harness/process.h"

namespace steplens {

/// What a run touches outside of its bundle: machine, processes, clock, the user's Ctrl-C. Tests
/// replace any of it.
struct RunSite {
  Machine* machine = nullptr;  // Not owned.
  std::function<ProcessResult(const ProcessSpec&, const std::function<StopRequest()>&)> run_process;
  /// Runs the ranks of a block together.
  std::function<std::vector<ProcessResult>(const std::vector<ProcessSpec>&,
                                           const std::function<StopRequest()>&)>
      run_processes;
  /// Starts a process ahead of its use; empty: nothing is started ahead.
  std::function<std::unique_ptr<WaitingProcess>(ProcessSpec)> start_waiting;
  std::function<StopRequest()> stop_request;
  std::function<double()> now_s;  // Unix time.
  std::function<void(double)> sleep_s;
  std::string boot_id;  // Changes when the machine starts anew; a round never spans two.

  /// Sleeps in slices until `duration_s` is over or a stop is asked for; false then.
  bool sleep_unless_stopped(double duration_s) const;
};

/// The real thing, with Ctrl-C as InterruptGuard counts it.
RunSite make_run_site(Machine& machine);

/// Unix time as "2026-01-31T12:34:56.789Z".
std::string utc_text(double unix_s);

/// The reverse. ConfigError for another format.
double unix_time_of(const std::string& utc);

}  // namespace steplens
