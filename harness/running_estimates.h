#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/bundle.h"
#include "harness/statistics.h"

namespace steplens {

/// One comparison as it stands after the rounds so far.
struct ArmEstimate {
  std::string arm;
  Estimate estimate;
};

/// Log-ratios of a run that is going on: for the progress line and for `--until-halfwidth`. The
/// report does not read it; it computes everything from the blocks.
class RunningEstimates {
 public:
  /// Takes a throughput block that ended ok. A later block of the same arm and round replaces it.
  void add(const BlockRecord& record);

  /// Comparisons of the arms that still run, over complete rounds, in the manifest's order. Arms
  /// without a round in common with their reference are left out.
  std::vector<ArmEstimate> estimates(const Manifest& manifest) const;

 private:
  std::map<std::pair<std::string, int>, double> log_rates_;  // Maps arm and round to log tokens/s.
};

/// Whether the arm takes part in rounds: applicable, and not FAILED.
bool is_live(const Manifest& manifest, const Arm& arm);

}  // namespace steplens
