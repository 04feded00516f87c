#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace steplens {

/// Steps of a trace, both included: rows of Trace::steps.
struct StepRange {
  int first_step_index = 0;
  int last_step_index = 0;
  bool operator==(const StepRange&) const = default;
};

/// One operation of one arm's trace.
struct OperationRef {
  std::string arm;
  std::uint32_t row = 0;  // Of Trace::gpu_ops.
  bool operator==(const OperationRef&) const = default;
};

enum class HighlightKind : std::uint8_t { kNone, kKernel, kPhase, kModule, kCategory, kIdle };

/// What stands out in every panel; the rest is dimmed.
struct Highlight {
  HighlightKind kind = HighlightKind::kNone;
  // Kernel: name as in the trace. Module: its kind, "block/attention". Phase, category, idle class:
  // `name_of` it.
  std::string key;
  bool operator==(const Highlight&) const = default;
};

/// What the panels share, and nothing else is. A panel that writes here speaks to all others.
struct Selection {
  std::string arm_a;  // Reference; empty without a document.
  std::string arm_b;  // Candidate; empty: only arm_a is looked at.
  std::optional<StepRange> steps;
  std::optional<OperationRef> operation;
  std::optional<OperationRef> hovered;  // Cleared before each frame.
  Highlight highlight;
};

}  // namespace steplens
