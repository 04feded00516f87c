#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/document.h"
#include "reports/roofline/roofline.h"

/// What the report says about the rates that kernels reach. All is empty without rated work.
namespace steplens {

/// The `max_rows` longest matrix products and attention kernels, by name.
Table rated_kernel_table(const Roofline& roofline, std::size_t max_rows = 12);

/// Norms, loss, clip, optimizer: bandwidth of the least bytes.
Table rated_part_table(const Roofline& roofline);

/// Which peaks, what share of the time is rated, and why the rest is not. Sentences.
std::vector<std::string> roofline_notes(const Roofline& roofline);

/// A bar each: share of its roof. An SVG file; empty without known peaks.
std::string roofline_svg(const Roofline& roofline, std::string_view arm, std::size_t max_rows = 12);

/// File name of that picture of the baseline, beside the report.
inline constexpr std::string_view kRooflinePlot = "roofline.svg";

}  // namespace steplens
