#include "harness/round_runner.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/statistics.h"
#include "harness/step_counts.h"

namespace steplens {
namespace {

// Arms of `names` that still need a block in the round, the one at `first` included.
std::vector<std::string> from_position(const std::vector<std::string>& names, std::size_t first) {
  return {names.begin() + static_cast<std::ptrdiff_t>(first), names.end()};
}

}  // namespace

std::vector<std::string> live_arms(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const Arm& arm : manifest.arms) {
    if (is_live(manifest, arm)) names.push_back(arm.name);
  }
  return names;
}

int num_complete_rounds(const Manifest& manifest) {
  return static_cast<int>(std::ranges::count_if(manifest.rounds, [](const RoundRecord& round) {
    return round.is_complete && round.dropped_reason.empty();
  }));
}

bool has_work_left(const Manifest& manifest) {
  bool has_comparison = false;
  for (const Arm& arm : manifest.arms) {
    if (arm.reference.empty()) continue;
    has_comparison = true;
    const Arm* reference = find_arm(manifest, arm.reference);
    if (is_live(manifest, arm) && reference != nullptr && is_live(manifest, *reference)) {
      return true;
    }
  }
  return !has_comparison;
}

RoundRecord& begin_round(BundleWriter& writer, const std::string& machine_id) {
  Manifest& manifest = writer.manifest();
  RoundRecord round{.machine_id = machine_id};
  for (const RoundRecord& earlier : manifest.rounds) {
    round.index = std::max(round.index, earlier.index + 1);
  }
  const std::vector<std::string> names = live_arms(manifest);
  for (const int position :
       draw_round_order(manifest.seed, round.index, static_cast<int>(names.size()))) {
    round.order.push_back(names.at(static_cast<std::size_t>(position)));
  }
  manifest.rounds.push_back(std::move(round));
  writer.save();
  return manifest.rounds.back();
}

RoundRecord* find_open_round(Manifest& manifest) {
  const auto it = std::ranges::find_if(manifest.rounds, [](const RoundRecord& round) {
    return !round.is_complete && round.dropped_reason.empty();
  });
  return it == manifest.rounds.end() ? nullptr : &*it;
}

void drop_round(BundleWriter& writer, RoundRecord& round, const std::string& reason) {
  round.dropped_reason = reason;
  for (BlockEntry& entry : writer.manifest().blocks) {
    if (entry.kind == BlockKind::kThroughput && entry.round_index == round.index) {
      entry.is_superseded = true;
    }
  }
  writer.save();
}

RoundResult run_round(RunParts& parts, int round_index) {
  Manifest& manifest = parts.writer.manifest();
  const auto round = std::ranges::find(manifest.rounds, round_index, &RoundRecord::index);
  const int num_complete = num_complete_rounds(manifest);
  std::vector<const Arm*> arms;
  for (const std::string& name : round->order) {
    const Arm* arm = find_arm(manifest, name);
    const BlockSlot slot{.arm = name, .round_index = round_index};
    if (is_live(manifest, *arm) && needs_block(parts.writer, slot)) arms.push_back(arm);
  }
  parts.runner.start_ahead(arms);
  for (std::size_t i = 0; i < round->order.size(); ++i) {
    const Arm& arm = *find_arm(manifest, round->order[i]);
    if (!is_live(manifest, arm)) continue;
    const double rest_s = parts.durations.expected_s(manifest, from_position(round->order, i)) +
                          (manifest.num_rounds_planned - num_complete - 1) *
                              parts.durations.expected_s(manifest, live_arms(manifest));
    const ProgressState state{
        .phase = fmt::format("round {}/{}", num_complete + 1, manifest.num_rounds_planned),
        .arm = arm.name,
        .block_number = static_cast<int>(i) + 1,
        .num_blocks = static_cast<int>(round->order.size()),
        .remaining_s = rest_s};
    const StepCounts counts = counts_of({.num_warmup_steps = manifest.num_warmup_steps,
                                         .num_measured_steps = manifest.num_measured_steps},
                                        manifest.baseline, arm.config);
    const SlotResult result =
        fill_slot(parts, arm, {.arm = arm.name, .round_index = round_index}, counts, state);
    if (result.end == SlotEnd::kInterrupted) return {.end = RoundEnd::kInterrupted};
    if (result.end == SlotEnd::kInvalidTooOften) {
      drop_round(parts.writer, *round, result.reason);
      return {.end = RoundEnd::kDropped, .reason = result.reason};
    }
    if (result.end == SlotEnd::kArmFailed) {
      parts.progress.say(fmt::format("{} FAILED: {}", arm.name, result.reason));
      if (manifest.num_aa == 0 && &arm == &manifest.arms.front()) {
        return {.end = RoundEnd::kBaselineFailed, .reason = result.reason};
      }
    }
  }
  round->is_complete = true;
  parts.writer.save();
  return {};
}

}  // namespace steplens
