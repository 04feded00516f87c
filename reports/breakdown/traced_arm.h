#pragma once

#include <optional>
#include <span>
#include <string>

#include "reports/breakdown/breakdown.h"
#include "reports/communication/communication.h"
#include "reports/roofline/roofline.h"

namespace steplens {

/// One arm's trace as the report uses it.
struct TracedArm {
  std::string arm;
  std::string reference;  // The arm that it is compared with; empty for the baseline.
  Breakdown breakdown;
  std::optional<double> throughput_step_ns;  // Mean step of the blocks that were not traced.
  CommunicationUse communication;            // Of all ranks.
  Roofline roofline;                         // Rates that its kernels reached.
};

/// Above it tracing has changed what it measured, and the breakdown is called distorted.
inline constexpr double kDistortedRatio = 1.10;

/// Step with trace / step without; absent if one of the two is.
std::optional<double> trace_ratio(const TracedArm& arm);

bool is_distorted(const TracedArm& arm);

/// Returns nullptr if there is no such arm.
const TracedArm* find_traced_arm(std::span<const TracedArm> arms, std::string_view name);

}  // namespace steplens
