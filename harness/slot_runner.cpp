#include "harness/slot_runner.h"

#include <optional>

#include <fmt/format.h>

namespace steplens {

void fail_arm(Manifest& manifest, const Arm& arm, const std::string& reason) {
  manifest.failed_arms[arm.name] = reason;
  if (manifest.num_aa > 0) return;
  for (const Arm& other : manifest.arms) {
    if (other.reference == arm.name && is_live(manifest, other)) {
      fail_arm(
          manifest, other,
          fmt::format("its reference {} failed, so there is nothing to compare it with", arm.name));
    }
  }
}

SlotResult fill_slot(RunParts& parts, const Arm& arm, const BlockSlot& slot, StepCounts counts,
                     const ProgressState& state) {
  while (true) {
    const SlotVerdict verdict = judge_slot(parts.writer, slot);
    if (verdict.state == SlotState::kDone) return {};
    if (verdict.state == SlotState::kInvalidTooOften) {
      return {.end = SlotEnd::kInvalidTooOften, .reason = verdict.reason};
    }
    if (verdict.state == SlotState::kArmFailed) {
      // A trace explains an arm; without one the arm's rates are as good as before.
      if (!writes_trace(slot.kind)) {
        fail_arm(parts.writer.manifest(), arm, verdict.reason);
        parts.writer.save();
      }
      return {.end = SlotEnd::kArmFailed, .reason = verdict.reason};
    }
    if (parts.site.stop_request() != StopRequest::kNone) return {.end = SlotEnd::kInterrupted};
    parts.progress.block_starts(state);
    const std::optional<nlohmann::json> facts = slot.kind == BlockKind::kPilot
                                                    ? parts.conditioner.prepare_pilot()
                                                    : parts.conditioner.prepare_throughput();
    if (!facts) return {.end = SlotEnd::kInterrupted};
    const BlockOutcome outcome = parts.runner.run({.arm = &arm,
                                                   .kind = slot.kind,
                                                   .round_index = slot.round_index,
                                                   .counts = counts,
                                                   .facts = *facts});
    if (outcome.is_interrupted) return {.end = SlotEnd::kInterrupted};
    parts.conditioner.block_ended();
    parts.durations.add(outcome.entry, outcome.record);
    if (slot.kind == BlockKind::kThroughput && outcome.record.status == BlockStatus::kOk) {
      parts.estimates.add(outcome.record);
    }
    parts.progress.block_ends(state, name_of(outcome.record.status), outcome.entry.duration_s);
  }
}

}  // namespace steplens
