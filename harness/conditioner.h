#pragma once

#include <optional>
#include <string>

#include "harness/block_runner.h"

namespace steplens {

/// Brings the machine into the state in which blocks may be compared, and says so where it cannot.
///
/// Before round 1 and after every pause of more than 60 s a soak block of the baseline runs:
/// stored, not used. Before each block it waits until the GPU is within 3 degrees of its
/// temperature after the soak, or at least 20 degrees below its slow-down, for 180 s at most.
class Conditioner {
 public:
  /// The references must outlive it. `baseline` is the arm that soaks.
  Conditioner(BundleWriter& writer, BlockRunner& runner, const RunSite& site, const Arm& baseline);

  /// What a block finds: goes into its process.json. Absent if the user interrupted.
  std::optional<nlohmann::json> prepare_throughput();
  nlohmann::json prepare_pilot() const;

  /// A block has ended: pauses count from here.
  void block_ended();

  /// The next throughput block must soak first (machine changed, or a new session after a pause).
  void require_soak() { needs_soak_ = true; }

  /// The soak of an earlier session, minutes ago, still counts.
  void trust_last_soak();

 private:
  bool soak();
  std::optional<double> wait_for_temperature();  // Seconds waited; absent if interrupted.
  bool is_at_temperature() const;
  nlohmann::json facts(double thermal_wait_s) const;

  BundleWriter& writer_;
  BlockRunner& runner_;
  const RunSite& site_;
  const Arm& baseline_;
  bool needs_soak_ = true;
  std::optional<double> soak_celsius_;
  std::optional<double> last_block_end_s_;  // Unix time.
};

inline constexpr double kMaxPauseS = 60;

}  // namespace steplens
