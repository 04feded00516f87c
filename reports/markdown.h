#pragma once

#include <string>
#include <string_view>

#include "reports/section.h"

namespace steplens {

inline constexpr std::string_view kReportFileName = "report.md";
inline constexpr std::string_view kEffectsFileName = "report_effects.svg";
inline constexpr std::string_view kResultsFileName = "results.json";

/// report.md: the answer, the baseline, then every section that has something to say. Holds no path
/// and no host name of this machine.
std::string report_markdown(const ReportInput& input);

}  // namespace steplens
