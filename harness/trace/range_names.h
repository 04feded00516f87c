#pragma once

#include <string_view>

#include "harness/trace/trace.h"

/// The NVTX vocabulary of a traced program: these names in the default domain mean the same whoever
/// emits them, the C++ workload, a Python arm or any other program.
namespace steplens {

inline constexpr std::string_view kStepRangeName = "step";             // Everything of one step.
inline constexpr std::string_view kMicroStepRangeName = "micro-step";  // Below it.
inline constexpr std::string_view kFenceRangeName = "fence";  // The wait that ends a window.

/// Domain of single operators of a CPU arm, outermost ones only: they become GpuOp rows.
inline constexpr std::string_view kOperatorDomainName = "steplens.operators";
/// Domain of the profiler's own work.
inline constexpr std::string_view kProfilerDomainName = "steplens.profiler";
/// Domain of what the driver does besides the calls: compiling, loading, a full command buffer.
inline constexpr std::string_view kDriverDomainName = "steplens.driver";

/// "data", "forward", "backward", "clip" and "optimizer" are phases; "other" is what a step does
/// besides. kNone for every other name: modules.
Phase phase_of_range_name(std::string_view name);

/// Step, micro-step (also spelled micro_step) or a phase: what structures a step. All else below
/// them are modules.
bool is_structure_range_name(std::string_view name);

}  // namespace steplens
