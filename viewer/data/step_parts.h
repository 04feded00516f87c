#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/breakdown/traced_arm.h"
#include "reports/breakdown/waterfall.h"

namespace steplens {

/// By what a step is divided.
enum class StepDimension : std::uint8_t { kCategory, kPhase, kModule };
inline constexpr std::size_t kNumStepDimensions = 3;
std::string_view name_of(StepDimension dimension);  // "category", "phase", "module"

/// One part of a mean step.
struct StepPart {
  std::string key;    // As in UsageGroup; idle time: "idle.<class>", or "idle" for all of it.
  std::string label;  // For people.
  double duration_ns = 0;
};

/// The parts of the mean step: what ran, the longest over all `arms` first, then the idle classes.
/// They sum to the step. Every arm gets the same parts in the same order; those that no arm has are
/// left out. Beyond `max_parts` what ran is one part "rest".
std::vector<std::vector<StepPart>> step_parts(std::span<const TracedArm* const> arms,
                                              StepDimension dimension, std::size_t max_parts = 10);

/// The rows of that dimension, without those that change nothing; the largest change first. They
/// sum to the difference.
std::vector<WaterfallRow> waterfall_rows(const Waterfall& waterfall, StepDimension dimension);

/// The same with all changes below `min_ns` as one last row "rest", if they are more than one. The
/// sum stays.
std::vector<WaterfallRow> with_small_ones_folded(std::vector<WaterfallRow> rows, double min_ns);

/// The idle class of a key "idle.sync"; absent if it is none.
std::optional<IdleClass> idle_of_key(std::string_view key);
/// The category of a key "gemm", the phase of "forward"; absent if it is none.
std::optional<KernelCategory> category_of_key(std::string_view key);
std::optional<Phase> phase_of_key(std::string_view key);

}  // namespace steplens
