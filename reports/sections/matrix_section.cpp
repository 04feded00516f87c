#include <fmt/format.h>

#include "reports/matrix_table.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string how_to_read(const Results& results) {
  return fmt::format(
      "Rates and effects are of valid tokens (no padding); step is wall time. The effect is the "
      "candidate's rate / its reference's in the same round, over {} complete rounds, with a "
      "{:.0f} "
      "% interval per comparison: the intervals are not simultaneous. {}A verdict FASTER or SLOWER "
      "needs an adjusted p <= {}; EQUIVALENT means that the whole interval lies within {:.3g} %; "
      "INCONCLUSIVE means that this run cannot tell, not that there is no difference.",
      results.num_rounds_complete, 100 * results.rule.confidence,
      results.num_comparisons > 1
          ? fmt::format("The adjusted p values hold for all {} comparisons together. ",
                        results.num_comparisons)
          : "",
      results.rule.alpha, 100 * (results.rule.equivalence_ratio - 1));
}

}  // namespace

std::vector<Part> matrix_parts(const ReportInput& input) {
  std::vector<Part> parts = {matrix_table(input.results)};
  const std::vector<std::string> notes = matrix_notes(input.results);
  if (!notes.empty()) parts.emplace_back(BulletList{notes});
  parts.emplace_back(Paragraph{how_to_read(input.results)});
  return parts;
}

}  // namespace steplens
