#include "harness/interrupt.h"

#include <array>
#include <atomic>

#include <signal.h>
#include <unistd.h>

#include "harness/error.h"

namespace steplens {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

// Lock-free, so that the handler may touch them.
std::atomic<int> num_signals{0};
std::atomic<bool> is_guarded{false};
std::array<struct sigaction, kSignals.size()> previous_actions;

constexpr int kExitIncomplete = 4;

// The third one ends us wherever we are; the kernel takes the child along.
void count_signal(int /*signal*/) {
  if (num_signals.fetch_add(1) >= 2) ::_exit(kExitIncomplete);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  SL_CHECK(!is_guarded.exchange(true));
  num_signals = 0;
  struct sigaction action{};
  action.sa_handler = count_signal;  // No SA_RESTART: poll and sleep must return.
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals.at(i), nullptr, &previous_actions.at(i));
    // nohup and background shells ignore some of these on purpose.
    if (previous_actions.at(i).sa_handler != SIG_IGN) {
      ::sigaction(kSignals.at(i), &action, nullptr);
    }
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals.at(i), &previous_actions.at(i), nullptr);
  }
  is_guarded = false;
}

StopRequest InterruptGuard::stop_request() {
  const int count = num_signals.load();
  if (count == 0) return StopRequest::kNone;
  return count == 1 ? StopRequest::kGently : StopRequest::kAtOnce;
}

}  // namespace steplens
