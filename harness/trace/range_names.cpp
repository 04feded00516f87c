#include "harness/trace/range_names.h"

namespace steplens {

Phase phase_of_range_name(std::string_view name) {
  for (const Phase phase : {Phase::kData, Phase::kForward, Phase::kBackward, Phase::kClip,
                            Phase::kOptimizer, Phase::kOther}) {
    if (name == name_of(phase)) return phase;
  }
  return Phase::kNone;
}

bool is_structure_range_name(std::string_view name) {
  return name == kStepRangeName || name == kMicroStepRangeName || name == "micro_step" ||
         phase_of_range_name(name) != Phase::kNone;
}

}  // namespace steplens
