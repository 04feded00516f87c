#pragma once

#include <string>
#include <vector>

#include "harness/bundle.h"
#include "reports/results.h"
#include "reports/section.h"

/// The report for those who read nothing else of it.
namespace steplens {

/// One sentence a toggle, in the order of the manifest: what each of its levels does to the rate,
/// as far as this run can tell, and to memory where that changes by more than 5 %. Arms without a
/// toggle (external programs, cells of a grid) have a sentence of their own. Empty for an A/A.
std::vector<std::string> toggle_sentences(const Manifest& manifest, const Results& results);

/// Of the results, the traces and the memory blocks; each is a sentence.
std::vector<std::string> all_warnings(const ReportInput& input);

/// "What could be wrong with this: 7 warnings, 2 failed blocks, 6 arms with a label."
std::string doubts_line(const ReportInput& input);

}  // namespace steplens
