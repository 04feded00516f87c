#pragma once

#include <string>
#include <string_view>

#include "reports/document.h"

/// Parts of a document as HTML that is well-formed XML too. Whatever comes from a bundle is escaped
/// here, by `svg_escaped`, and nowhere else.
namespace steplens {

/// Rows beyond which a table is folded away. An A/A of 20 comparisons has 21 in its matrix.
inline constexpr std::size_t kMaxOpenRows = 30;

/// Any part but folds. `label` says to a screen reader what a table belongs to.
std::string to_html(const Part& part, std::string_view label);

/// All parts of one section, folds included.
std::string to_html(const std::vector<Part>& parts, std::string_view label);

/// The definitions that column titles refer to, by the anchor "metric-<key>".
std::string metrics_html();

}  // namespace steplens
