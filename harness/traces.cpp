#include "harness/traces.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace steplens {
namespace {

void note_once(BundleWriter& writer, std::string note) {
  std::vector<std::string>& notes = writer.manifest().notes;
  if (std::ranges::find(notes, note) != notes.end()) return;
  notes.push_back(std::move(note));
  writer.save();
}

}  // namespace

PhaseResult run_traces(RunParts& parts, const std::function<bool(double)>& is_time_over) {
  const Manifest& manifest = parts.writer.manifest();
  if (manifest.num_trace_steps == 0) return {};
  std::vector<const Arm*> arms;
  for (const Arm& arm : manifest.arms) {
    if (is_live(manifest, arm) && arm.command.empty()) arms.push_back(&arm);
  }
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const Arm& arm = *arms[i];
    const BlockSlot slot{.arm = arm.name, .kind = BlockKind::kTrace};
    const double expected_s = parts.durations.expected_s(manifest, arm.name);
    if (judge_slot(parts.writer, slot).state == SlotState::kNeedsBlock &&
        is_time_over(expected_s)) {
      return {.end = PhaseEnd::kTimeLimit, .reason = "before all traces were made"};
    }
    const ProgressState state{.phase = "trace",
                              .arm = arm.name,
                              .block_number = static_cast<int>(i) + 1,
                              .num_blocks = static_cast<int>(arms.size()),
                              .remaining_s = expected_s * static_cast<double>(arms.size() - i)};
    const StepCounts counts{.num_warmup_steps = manifest.num_warmup_steps,
                            .num_measured_steps = manifest.num_trace_steps};
    const SlotResult result = fill_slot(parts, arm, slot, counts, state);
    if (result.end == SlotEnd::kInterrupted) return {.end = PhaseEnd::kInterrupted};
    if (result.end == SlotEnd::kArmFailed || result.end == SlotEnd::kInvalidTooOften) {
      note_once(parts.writer, fmt::format("There is no trace of {}: {}.", arm.name, result.reason));
    }
  }
  return {};
}

}  // namespace steplens
