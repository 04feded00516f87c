#include "reports/effect_plot.h"
#include "reports/markdown.h"
#include "reports/matrix_table.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> effects_parts(const ReportInput& input) {
  std::string svg = effects_svg(input.results);
  if (svg.empty()) return {};
  return {Image{.file_name = std::string(kEffectsFileName),
                .description = "Effects with intervals. " + headline(input.results),
                .svg = std::move(svg)}};
}

}  // namespace steplens
