#pragma once

#include "harness/process.h"

namespace steplens {

/// Catches SIGINT, SIGTERM and SIGHUP while it lives, so that a run can end in order. One at a
/// time.
///
/// The first signal asks for a gentle stop, the second for one at once; a third ends the process
/// with exit code 4.
class InterruptGuard {
 public:
  [[nodiscard]] InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// What the signals so far ask for. Callable from any thread.
  static StopRequest stop_request();
};

}  // namespace steplens
