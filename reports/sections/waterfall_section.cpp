#include <fmt/format.h>

#include "reports/breakdown/breakdown_parts.h"
#include "reports/format.h"
#include "reports/section.h"

namespace steplens {
namespace {

// "**graph=on** against baseline: 12.30 ms less a step (110.2 ms to 97.90 ms), traced."
std::string headline_of(const TracedArm& arm, const Waterfall& waterfall) {
  const std::int64_t change_ns = waterfall.difference_ns;
  return fmt::format(
      "**{}** against {}: {}{} ({} to {} a traced step){}", arm.arm, arm.reference,
      format_duration_ns(static_cast<double>(change_ns < 0 ? -change_ns : change_ns)),
      change_ns < 0 ? " less" : " more",
      format_duration_ns(static_cast<double>(waterfall.reference_step_ns)),
      format_duration_ns(static_cast<double>(waterfall.candidate_step_ns)),
      is_distorted(arm) ? ". DISTORTED: tracing changed what it measures." : ".");
}

}  // namespace

std::vector<Part> waterfall_parts(const ReportInput& input) {
  std::vector<Part> parts;
  for (const TracedArm& arm : input.traced_arms) {
    const TracedArm* reference = find_traced_arm(input.traced_arms, arm.reference);
    if (arm.reference.empty() || reference == nullptr) continue;
    const std::optional<Waterfall> waterfall =
        compute_waterfall(reference->breakdown, arm.breakdown);
    if (!waterfall) continue;
    parts.emplace_back(Paragraph{headline_of(arm, *waterfall)});
    parts.emplace_back(waterfall_table(*waterfall, waterfall->categories));
    parts.emplace_back(waterfall_table(*waterfall, waterfall->phases));
    Table kernels = kernel_change_table(*waterfall);
    if (!kernels.rows.empty()) parts.emplace_back(std::move(kernels));
  }
  if (!parts.empty()) {
    parts.emplace_back(Paragraph{
        "Each column of differences sums to the difference of the steps, to the nanosecond: every "
        "moment belongs to one operation or to one class of idle time. A traced step explains an "
        "effect; how large the effect is, the matrix says."});
  }
  return parts;
}

}  // namespace steplens
