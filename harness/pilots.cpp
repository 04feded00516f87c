#include "harness/pilots.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "harness/statistics.h"
#include "harness/step_counts.h"

namespace steplens {
namespace {

// Enough for a median step time and for counts per step.
constexpr std::int64_t kNumPilotSteps = 10;

std::vector<const Arm*> arms_with_pilots(const Manifest& manifest) {
  std::vector<const Arm*> arms;
  for (const Arm& arm : manifest.arms) {
    if (is_live(manifest, arm)) arms.push_back(&arm);
    if (manifest.num_aa > 0 && !arms.empty()) break;
  }
  return arms;
}

const BlockEntry* find_pilot_entry(const Manifest& manifest, const Arm& arm) {
  for (const BlockEntry& entry : manifest.blocks) {
    if (entry.kind == BlockKind::kPilot && entry.arm == arm.name &&
        entry.status == BlockStatus::kOk) {
      return &entry;
    }
  }
  return nullptr;
}

// A pilot's step is steady before its host runs a whole step ahead of the device, and only then
// does what begins with the measured steps (the sampler, the reset of memory peaks) cost them
// nothing: after one warm-up step the first measured one took 4.7 % longer (median) on an H200.
constexpr std::int64_t kMinWarmupSteps = 4;

// What the pilot's detector found, or all its warm-up steps if it says nothing.
std::int64_t detected_warmup_steps(const BlockRecord& pilot, Manifest& manifest) {
  const auto num_warmup = static_cast<std::int64_t>(pilot.warmup.size());
  const auto detected = pilot.evidence.find("detected_warmup_steps");
  const bool is_said = detected != pilot.evidence.end() && detected->is_number_integer() &&
                       detected->get<std::int64_t>() >= 0;
  const std::int64_t num_steps = is_said ? detected->get<std::int64_t>() : num_warmup;
  const auto settled = pilot.evidence.find("warmup_settled");
  if (!is_said || (settled != pilot.evidence.end() && *settled == false)) {
    manifest.notes.push_back(fmt::format(
        "The pilot of {} found no steady step time; {} of its steps are taken as the warm-up.",
        pilot.arm, num_steps));
  }
  return num_steps;
}

double median_step_ns(const BlockRecord& pilot) {
  const StepArrays& steps = pilot.steps.size() > 0 ? pilot.steps : pilot.warmup;
  const std::vector<double> values(steps.step_wall_ns.begin(), steps.step_wall_ns.end());
  return values.empty() ? 0 : median(values);
}

// False if the baseline's pilot holds no usable step.
bool store_step_counts(BundleWriter& writer) {
  Manifest& manifest = writer.manifest();
  std::int64_t num_warmup_steps = kMinWarmupSteps;
  double baseline_step_ns = 0;
  for (const Arm* arm : arms_with_pilots(manifest)) {
    const BlockEntry* entry = find_pilot_entry(manifest, *arm);
    if (entry == nullptr) continue;
    const BlockRecord pilot = writer.read_block(*entry);
    if (manifest.num_warmup_steps == 0) {
      num_warmup_steps =
          std::max(num_warmup_steps, in_baseline_steps(detected_warmup_steps(pilot, manifest),
                                                       arm->config, manifest.baseline));
    }
    if (baseline_step_ns == 0) baseline_step_ns = median_step_ns(pilot);
  }
  if (manifest.num_measured_steps == 0 && baseline_step_ns <= 0) return false;
  StepCounts counts{.num_warmup_steps = manifest.num_warmup_steps,
                    .num_measured_steps = manifest.num_measured_steps};
  if (counts.num_warmup_steps == 0) counts.num_warmup_steps = num_warmup_steps;
  if (counts.num_measured_steps == 0) {
    counts.num_measured_steps = num_measured_steps_for(baseline_step_ns);
  }
  counts = rounded_counts(counts, manifest.arms);
  manifest.num_warmup_steps = counts.num_warmup_steps;
  manifest.num_measured_steps = counts.num_measured_steps;
  writer.save();
  return true;
}

}  // namespace

PhaseResult run_pilots(RunParts& parts, const std::function<bool()>& is_time_over) {
  const Manifest& manifest = parts.writer.manifest();
  const std::vector<const Arm*> arms = arms_with_pilots(manifest);
  std::vector<std::string> names;
  for (const Arm& arm : manifest.arms) {
    if (is_live(manifest, arm)) names.push_back(arm.name);
  }
  std::vector<const Arm*> without_pilot;
  std::ranges::copy_if(arms, std::back_inserter(without_pilot), [&](const Arm* arm) {
    return needs_block(parts.writer, {.arm = arm->name, .kind = BlockKind::kPilot});
  });
  if (!without_pilot.empty() && !is_time_over()) parts.runner.start_ahead(without_pilot);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const Arm& arm = *arms[i];
    if (!is_live(manifest, arm)) continue;  // Its reference failed meanwhile.
    const BlockSlot slot{.arm = arm.name, .kind = BlockKind::kPilot};
    if (judge_slot(parts.writer, slot).state == SlotState::kNeedsBlock && is_time_over()) {
      return {.end = PhaseEnd::kTimeLimit, .reason = "before all pilots had run"};
    }
    const double rounds_s =
        manifest.num_rounds_planned * parts.durations.expected_s(manifest, names);
    const double pilots_s =
        static_cast<double>(arms.size() - i) * parts.durations.expected_s(manifest, arm.name);
    const ProgressState state{.phase = "pilot",
                              .arm = arm.name,
                              .block_number = static_cast<int>(i) + 1,
                              .num_blocks = static_cast<int>(arms.size()),
                              .remaining_s = pilots_s + rounds_s};
    const StepCounts counts{.num_warmup_steps = WarmupDetector::kMaxSteps,
                            .num_measured_steps = kNumPilotSteps};
    const SlotResult result = fill_slot(parts, arm, slot, counts, state);
    if (result.end == SlotEnd::kInterrupted) return {.end = PhaseEnd::kInterrupted};
    if (result.end == SlotEnd::kInvalidTooOften) {
      return {.end = PhaseEnd::kUnsteady, .reason = result.reason};
    }
    if (result.end == SlotEnd::kArmFailed) {
      parts.progress.say(fmt::format("{} FAILED: {}", arm.name, result.reason));
      if (&arm == &manifest.arms.front()) {
        return {.end = PhaseEnd::kBaselineFailed, .reason = result.reason};
      }
    }
  }
  const bool is_decided = manifest.num_warmup_steps > 0 && manifest.num_measured_steps > 0;
  if (!is_decided && !store_step_counts(parts.writer)) {
    return {.end = PhaseEnd::kBaselineFailed, .reason = "its pilot holds no step with a duration"};
  }
  return {};
}

}  // namespace steplens
