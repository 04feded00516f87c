#include "reports/effect_plot.h"
#include "reports/markdown.h"
#include "reports/matrix_table.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> effects_parts(const ReportInput& input) {
  if (effects_svg(input.results).empty()) return {};
  return {Image{.file_name = std::string(kEffectsFileName),
                .description = "Effects with intervals. " + headline(input.results)}};
}

}  // namespace steplens
