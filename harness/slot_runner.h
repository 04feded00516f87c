#pragma once

#include <cstdint>
#include <string>

#include "harness/block_durations.h"
#include "harness/block_slot.h"
#include "harness/conditioner.h"
#include "harness/progress.h"
#include "harness/running_estimates.h"

namespace steplens {

/// The parts of a run that pilots and rounds share. References, so that each part is built, and
/// tested, on its own.
struct RunParts {
  BundleWriter& writer;
  BlockRunner& runner;
  Conditioner& conditioner;
  Progress& progress;
  BlockDurations& durations;
  RunningEstimates& estimates;
  const RunSite& site;
};

enum class SlotEnd : std::uint8_t { kDone, kArmFailed, kInvalidTooOften, kInterrupted };

struct SlotResult {
  SlotEnd end = SlotEnd::kDone;
  std::string reason;  // For kArmFailed and kInvalidTooOften.
};

/// Runs blocks of `arm` until its slot is decided; returns at once if it already is. An arm that
/// fails is entered in the manifest as FAILED, unless it is a trace that fails. `state` is what the
/// progress line says.
SlotResult fill_slot(RunParts& parts, const Arm& arm, const BlockSlot& slot, StepCounts counts,
                     const ProgressState& state);

/// Enters `arm` as FAILED. In a matrix the arms that are compared with it fail too, because nothing
/// is left to compare them with; in an A/A only one comparison is lost.
void fail_arm(Manifest& manifest, const Arm& arm, const std::string& reason);

}  // namespace steplens
