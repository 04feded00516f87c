#pragma once

#include <string>
#include <string_view>

#include "reports/report_document.h"

namespace steplens {

inline constexpr std::string_view kHtmlFileName = "report.html";

/// report.html: the same words and numbers as report.md in one file that needs no other, no network
/// and no script (a content security policy forbids them), with all plots inside. Dark where the
/// reader's system is, made for paper too, and well-formed XML behind its first line.
std::string report_html(const ReportDocument& document);

}  // namespace steplens
