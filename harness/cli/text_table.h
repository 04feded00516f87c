#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace steplens {

/// Rows as aligned columns, two spaces apart, the last column ragged. Each line begins with
/// `indent` and ends with a line break.
std::string aligned(const std::vector<std::vector<std::string>>& rows,
                    std::string_view indent = "");

}  // namespace steplens
