#include <fmt/format.h>

#include "reports/matrix_table.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> aa_parts(const ReportInput& input) {
  if (!input.results.aa) return {};
  const AaResult& aa = *input.results.aa;
  const int num_missing = input.bundle.manifest.num_aa - aa.num_comparisons;
  std::string text = headline(input.results) + ".";
  if (num_missing > 0) {
    text += fmt::format(" {} of the {} planned comparisons have no p value.", num_missing,
                        input.bundle.manifest.num_aa);
  }
  return {
      Paragraph{text},
      Paragraph{"All arms run the same configuration; each is compared with its neighbour of the "
                "same round. A correct tool shows p <= 0.05 in about 1 of 20 comparisons and "
                "passes this test in 97 to 98 % of runs. 20 comparisons catch a true error rate "
                "of 10 % in only 13 % of runs, 200 in 79 %. A failed run is published as it is, "
                "and repeated only with at least twice as many comparisons."}};
}

}  // namespace steplens
