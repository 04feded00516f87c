#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/document.h"
#include "reports/memory/memory_account.h"

/// What the report says about memory blocks. Everything is empty without an arm that has one.
namespace steplens {

/// One arm's memory block as the report uses it.
struct MemoryArm {
  std::string arm;
  std::string reference;  // The arm that it is compared with; empty for the baseline.
  MemoryUse use;
  std::vector<MemoryPoint> timeline;         // Of the step with the peak.
  std::optional<double> step_ns;             // Mean step of this block,
  std::optional<double> throughput_step_ns;  // and of those without the tracker.
};

/// The account of one trace. `arm` and what comes from elsewhere is left to the caller.
MemoryArm memory_arm(const Trace& trace);

/// One row an arm: peak, its owners, cache slack, driver-used, unaccounted, what the tracker cost.
Table memory_table(std::span<const MemoryArm> arms);

/// One row an arm that has a reference: what differs at the peak.
Table memory_difference_table(std::span<const MemoryArm> arms);

/// One row a kind of module ("block/attention"): its bytes at the peak by owner; the `max_rows`
/// largest, and the rest as a last row, so that each column sums up.
Table memory_module_table(const MemoryAccount& account, std::size_t max_rows = 12);

/// What shakes an account; each is a sentence that begins with the arm.
std::vector<std::string> memory_warnings(std::span<const MemoryArm> arms);

/// Allocated bytes through one step by owner, stacked: one picture an arm below the other, all on
/// one scale. An SVG file; empty without an arm that has a step.
std::string memory_svg(std::span<const MemoryArm> arms);

/// Stacked bars, one an arm: the owners at the high-water mark, then cache slack and what is
/// unaccounted. An SVG file; empty without an arm that has an account.
std::string memory_peak_svg(std::span<const MemoryArm> arms);

/// Owners from the bottom of a stack up: what stays, then what comes and goes.
std::span<const MemoryOwner> stacking_order();

/// File name of the picture of `memory_svg`, beside the report.
inline constexpr std::string_view kMemoryPlot = "memory.svg";

}  // namespace steplens
