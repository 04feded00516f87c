#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "harness/running_estimates.h"

namespace steplens {

/// Where a run stands, as its user sees it.
struct ProgressState {
  std::string phase;  // "pilot", "soak", "round 3/12".
  std::string arm;
  int block_number = 0;  // Within the phase, from 1.
  int num_blocks = 0;
  double remaining_s = 0;  // Of the whole run, as far as known.
};

/// Prints the progress of a run: one line that is rewritten on a terminal, a line per finished
/// block elsewhere.
class Progress {
 public:
  /// `stream` must outlive it. A quiet one prints nothing but `say`.
  Progress(std::ostream& stream, bool is_terminal, bool is_quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void block_starts(const ProgressState& state);
  void block_ends(const ProgressState& state, std::string_view status, double duration_s);
  void round_ends(int num_complete, const std::vector<ArmEstimate>& estimates);

  /// One line that the user must see.
  void say(std::string_view line);

 private:
  void clear_line();

  std::ostream& stream_;
  bool is_terminal_;
  bool is_quiet_;
  bool has_open_line_ = false;  // The cursor stands in a line that will be rewritten.
};

/// "attention=math -42.1 % +- 0.3 %": effect on the rate, half-width of its 95 % interval.
std::string estimate_text(const ArmEstimate& estimate);

}  // namespace steplens
