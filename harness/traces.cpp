#include "harness/traces.h"

#include <algorithm>
#include <string>
#include <string_view>
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

// A kind of block that explains an arm, one an arm.
struct ExplainingKind {
  std::string_view what;
  std::string_view plural;
  std::int64_t Manifest::* num_steps;
  BlockKind kind;
  bool includes_external_arms;
  bool needs_gpu;
};
constexpr ExplainingKind kKinds[] = {
    {"trace", "traces", &Manifest::num_trace_steps, BlockKind::kTrace, true, false},
    {"trace of whole graphs", "traces of whole graphs", &Manifest::num_graph_trace_steps,
     BlockKind::kGraphTrace, true, true},
    // The tracker is a part of our own worker.
    {"memory account", "memory accounts", &Manifest::num_memory_steps, BlockKind::kMemory, false,
     false},
    {"trace with hardware counters", "traces with hardware counters", &Manifest::num_counter_steps,
     BlockKind::kCounters, true, true},
};

// Of a block that was there in vain: the machine refuses its counters, whatever the arm.
std::string why_counters_refused(const BundleWriter& writer) {
  for (const BlockEntry& entry : writer.manifest().blocks) {
    if (entry.kind != BlockKind::kCounters || entry.status != BlockStatus::kOk) continue;
    const nlohmann::json evidence = writer.read_block(entry).evidence;
    if (!evidence.is_object()) continue;
    const auto reason = evidence.find("counters_absent_reason");
    if (reason != evidence.end() && reason->is_string()) return reason->get<std::string>();
  }
  return "";
}

PhaseResult run_kind(RunParts& parts, const ExplainingKind& kind,
                     const std::function<bool(double)>& is_time_over) {
  const Manifest& manifest = parts.writer.manifest();
  const std::int64_t num_steps = manifest.*kind.num_steps;
  if (num_steps == 0) return {};
  if (kind.needs_gpu && manifest.baseline.device == Device::kCpu) {
    note_once(parts.writer, fmt::format("There are no {}: not applicable on a CPU.", kind.plural));
    return {};
  }
  std::vector<const Arm*> arms;
  for (const Arm& arm : manifest.arms) {
    if (!is_live(manifest, arm)) continue;
    if (arm.command.empty() || kind.includes_external_arms) arms.push_back(&arm);
  }
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const Arm& arm = *arms[i];
    if (kind.kind == BlockKind::kCounters) {
      if (const std::string refusal = why_counters_refused(parts.writer); !refusal.empty()) {
        note_once(parts.writer, fmt::format("Hardware counters are not available: {}.", refusal));
        return {};
      }
    }
    const BlockSlot slot{.arm = arm.name, .kind = kind.kind};
    const double expected_s = parts.durations.expected_s(manifest, arm.name);
    if (judge_slot(parts.writer, slot).state == SlotState::kNeedsBlock &&
        is_time_over(expected_s)) {
      return {.end = PhaseEnd::kTimeLimit,
              .reason = fmt::format("before all {} were made", kind.plural)};
    }
    const ProgressState state{.phase = std::string(name_of(kind.kind)),
                              .arm = arm.name,
                              .block_number = static_cast<int>(i) + 1,
                              .num_blocks = static_cast<int>(arms.size()),
                              .remaining_s = expected_s * static_cast<double>(arms.size() - i)};
    const StepCounts counts{.num_warmup_steps = manifest.num_warmup_steps,
                            .num_measured_steps = num_steps};
    const SlotResult result = fill_slot(parts, arm, slot, counts, state);
    if (result.end == SlotEnd::kInterrupted) return {.end = PhaseEnd::kInterrupted};
    if (result.end == SlotEnd::kArmFailed || result.end == SlotEnd::kInvalidTooOften) {
      note_once(parts.writer,
                fmt::format("There is no {} of {}: {}.", kind.what, arm.name, result.reason));
    }
  }
  return {};
}

}  // namespace

PhaseResult run_traces(RunParts& parts, const std::function<bool(double)>& is_time_over) {
  for (const ExplainingKind& kind : kKinds) {
    PhaseResult result = run_kind(parts, kind, is_time_over);
    if (result.end != PhaseEnd::kDone) return result;
  }
  return {};
}

}  // namespace steplens
