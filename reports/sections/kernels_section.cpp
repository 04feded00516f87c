#include <fmt/format.h>

#include "reports/breakdown/breakdown_parts.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> kernels_parts(const ReportInput& input) {
  for (const TracedArm& arm : input.traced_arms) {
    if (arm.breakdown.num_counted_steps == 0) continue;
    // The others' follow from the differences.
    return {Paragraph{fmt::format("Modules and kernels of {}:", arm.arm)},
            module_table(arm.breakdown), kernel_table(arm.breakdown)};
  }
  return {};
}

}  // namespace steplens
