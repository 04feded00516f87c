#include "reports/section.h"
#include "reports/summary.h"

namespace steplens {

std::vector<Part> summary_parts(const ReportInput& input) {
  std::vector<std::string> sentences = toggle_sentences(input.bundle.manifest, input.results);
  if (sentences.empty()) return {};
  return {BulletList{std::move(sentences)}};
}

}  // namespace steplens
