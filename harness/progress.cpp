#include "harness/progress.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "harness/block_durations.h"

namespace steplens {
namespace {

std::string state_text(const ProgressState& state) {
  return fmt::format("{}  block {}/{}  {}", state.phase, state.block_number, state.num_blocks,
                     state.arm);
}

}  // namespace

std::string estimate_text(const ArmEstimate& estimate) {
  const double effect_percent = 100 * std::expm1(estimate.estimate.mean_log_ratio);
  if (estimate.estimate.num_rounds < 2) {
    return fmt::format("{} {:+.2f} %", estimate.arm, effect_percent);
  }
  const double half_width_percent =
      100 * std::exp(estimate.estimate.mean_log_ratio) * estimate.estimate.half_width_log_ratio();
  return fmt::format("{} {:+.2f} % +- {:.2f} %", estimate.arm, effect_percent, half_width_percent);
}

Progress::Progress(std::ostream& stream, bool is_terminal, bool is_quiet)
    : stream_(stream),
      is_terminal_(is_terminal),
      is_quiet_(is_quiet) {}

Progress::~Progress() { clear_line(); }

void Progress::clear_line() {
  if (has_open_line_) stream_ << "\r\033[K" << std::flush;
  has_open_line_ = false;
}

void Progress::block_starts(const ProgressState& state) {
  if (is_quiet_ || !is_terminal_) return;
  clear_line();
  fmt::print(stream_, "{}  about {} left", state_text(state), duration_text(state.remaining_s));
  stream_ << std::flush;
  has_open_line_ = true;
}

void Progress::block_ends(const ProgressState& state, std::string_view status, double duration_s) {
  if (is_quiet_ || is_terminal_) return;
  fmt::print(stream_, "{}  {} after {:.1f} s, about {} left\n", state_text(state), status,
             duration_s, duration_text(state.remaining_s));
  stream_ << std::flush;
}

void Progress::round_ends(int num_complete, const std::vector<ArmEstimate>& estimates) {
  if (is_quiet_) return;
  clear_line();
  fmt::print(stream_, "after {} {}:\n", num_complete, num_complete == 1 ? "round" : "rounds");
  for (const ArmEstimate& estimate : estimates) {
    fmt::print(stream_, "  {}\n", estimate_text(estimate));
  }
  stream_ << std::flush;
}

void Progress::say(std::string_view line) {
  clear_line();
  stream_ << line << '\n' << std::flush;
}

}  // namespace steplens
