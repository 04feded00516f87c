#pragma once

#include <string>

namespace steplens {

/// The style sheet of report.html. Holds no "<" and no "&": the page is XML too.
std::string report_style();

}  // namespace steplens
