#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/bundle.h"

namespace steplens {

/// How long blocks take, learnt from those that ran: for the ETA and for the time limit.
class BlockDurations {
 public:
  /// Takes a block; only those that ended ok teach anything.
  void add(const BlockEntry& entry, const BlockRecord& record);

  /// Expected duration of the arm's throughput block: the median of its own, else what its pilot
  /// suggests for the manifest's numbers of steps, else the median of all arms, else 20 s.
  double expected_s(const Manifest& manifest, std::string_view arm) const;

  /// Sum over `arms`.
  double expected_s(const Manifest& manifest, const std::vector<std::string>& arms) const;

 private:
  struct PilotTiming {
    double start_up_s = 0;  // Everything but steps and compiling.
    double step_s = 0;
  };
  double pilot_estimate_s(const Manifest& manifest, std::string_view arm,
                          const PilotTiming& timing) const;

  std::map<std::string, std::vector<double>, std::less<>> throughput_s_;  // Maps arm to durations.
  std::map<std::string, PilotTiming, std::less<>> pilots_;                // Maps arm to its pilot.
};

/// With nothing known: a LibTorch start, its warm-up and 10 s of steps.
inline constexpr double kDefaultBlockS = 20;

/// "45 s", "4 min 10 s", "2 h 5 min".
std::string duration_text(double duration_s);

}  // namespace steplens
