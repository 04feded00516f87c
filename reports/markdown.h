#pragma once

#include <string>
#include <string_view>

#include "reports/report_document.h"

namespace steplens {

inline constexpr std::string_view kReportFileName = "report.md";
inline constexpr std::string_view kEffectsFileName = "report_effects.svg";
inline constexpr std::string_view kResultsFileName = "results.json";

/// report.md: the answer, the baseline, then every section that has something to say.
std::string report_markdown(const ReportDocument& document);

}  // namespace steplens
