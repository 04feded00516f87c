#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/breakdown/traced_arm.h"
#include "reports/breakdown/waterfall.h"
#include "reports/document.h"

/// What the report says about traces. Everything is empty without an arm that has steps.
namespace steplens {

/// One row an arm: the step and its parts, busy share, kernels, coverage, trace / throughput.
Table breakdown_table(std::span<const TracedArm> arms);

/// One row an arm: idle time a step by class.
Table idle_table(std::span<const TracedArm> arms);

/// One row an arm: exclusive time a step by category.
Table category_table(std::span<const TracedArm> arms);

/// One row an arm: exclusive time a step by phase.
Table phase_table(std::span<const TracedArm> arms);

/// One row a kind of module: exclusive time a step in the phases.
Table module_table(const Breakdown& breakdown);

/// The `max_rows` kernels with the longest exclusive time, and the rest as a last row.
Table kernel_table(const Breakdown& breakdown, std::size_t max_rows = 12);

/// What shakes a breakdown, loud words first: lost data, parts that do not sum up, distortion, low
/// coverage, rows left out. Each is a sentence that begins with the arm.
std::vector<std::string> breakdown_warnings(std::span<const TracedArm> arms);

/// The rows that are worth a line, largest change first. Those below 0.1 % of the reference's step
/// are one row at the end, so that the differences still sum to the total.
std::vector<WaterfallRow> shown_rows(const Waterfall& waterfall,
                                     std::span<const WaterfallRow> rows);

/// From the reference's step over its shown parts to the candidate's.
Table waterfall_table(const Waterfall& waterfall, std::span<const WaterfallRow> rows);

/// The `max_rows` kernels whose time changed most.
Table kernel_change_table(const Waterfall& waterfall, std::size_t max_rows = 8);

/// What a terminal shows of traces: warnings, then the tables of steps, idle time and categories.
std::string breakdown_text(std::span<const TracedArm> arms);

/// Stacked bars: a step of each arm by category (of communication and copies what is exposed), then
/// idle time by who is to blame. An SVG file; empty without an arm that has steps.
std::string breakdown_svg(std::span<const TracedArm> arms);

/// The same way as bars: the reference's step, each shown category and idle class as a step up or
/// down, and the candidate's step. An SVG file.
std::string waterfall_svg(const Waterfall& waterfall, const std::string& reference,
                          const std::string& arm);

/// File name of the picture of `breakdown_svg`, beside the report.
inline constexpr std::string_view kBreakdownPlot = "breakdown.svg";

}  // namespace steplens
