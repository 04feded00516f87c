#include "reports/section.h"

namespace steplens {

std::vector<Part> warnings_parts(const ReportInput& input) {
  if (input.results.warnings.empty()) return {Paragraph{"None."}};
  return {BulletList{input.results.warnings}};
}

}  // namespace steplens
