#pragma once

#include <string_view>

namespace steplens {

/// The style sheet of report.html. Holds no "<" and no "&": the page is XML too.
extern const std::string_view kReportStyle;

}  // namespace steplens
