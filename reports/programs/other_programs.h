#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/bundle.h"
#include "reports/document.h"
#include "reports/results.h"

namespace steplens {

/// The fastest arm of this program against one arm of another, in pairs of the same round.
struct ProgramRatio {
  std::string program;  // Name of the other program's arm: "torch-compile".
  int num_rounds = 0;   // In which both have a usable block.
  /// Valid tokens/s of ours / of the other: geometric mean over the rounds, with a t interval.
  double ratio = 1;
  double low_ratio = 1;
  double high_ratio = 1;
  std::optional<double> memory_ratio;  // Peak allocated of ours / of the other.
};

struct OtherPrograms {
  std::string own_arm;               // The fastest of ours.
  std::vector<ProgramRatio> ratios;  // In the order of the matrix.
};

/// Without ratios where no arm of another program did the same maths in two rounds of ours. Left
/// out on both sides: arms that failed, had no effect, whose maths differ, or that do not promise
/// the same maths (a forward pass alone, a lower precision).
OtherPrograms compare_programs(const Bundle& bundle, const Results& results);

/// One row a program.
Table programs_table(const OtherPrograms& programs, const Results& results);

/// "best does 1.262 times [1.258, 1.266] the tokens of torch-compile-reduce-overhead, the fastest
/// of the other programs, with 0.733 times its memory at the peak."; empty without ratios.
std::string programs_sentence(const OtherPrograms& programs);

}  // namespace steplens
