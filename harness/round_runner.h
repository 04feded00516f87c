#pragma once

#include <cstdint>
#include <string>

#include "harness/pilots.h"
#include "harness/slot_runner.h"

namespace steplens {

/// Draws the order of a new round over the live arms and enters it in the manifest. Its index is
/// the next one that was never used, so a dropped round's order is not drawn again.
RoundRecord& begin_round(BundleWriter& writer, const std::string& machine_id);

/// The round that was begun and neither completed nor dropped, or nullptr.
RoundRecord* find_open_round(Manifest& manifest);

/// Leaves the round out whole: its blocks stay stored and become superseded.
void drop_round(BundleWriter& writer, RoundRecord& round, const std::string& reason);

enum class RoundEnd : std::uint8_t { kComplete, kDropped, kInterrupted, kBaselineFailed };

struct RoundResult {
  RoundEnd end = RoundEnd::kComplete;
  std::string reason;  // For kDropped and kBaselineFailed.
};

/// Runs the blocks that the round still lacks. It is complete when every arm that has not FAILED
/// has its block, and dropped whole if one stays invalid.
RoundResult run_round(RunParts& parts, int round_index);

int num_complete_rounds(const Manifest& manifest);

/// Names of the arms that take part in the next round, in the manifest's order.
std::vector<std::string> live_arms(const Manifest& manifest);

/// Whether a comparison is left to measure. A plan that never had one (a single arm) has.
bool has_work_left(const Manifest& manifest);

}  // namespace steplens
