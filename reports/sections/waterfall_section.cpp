#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "reports/breakdown/breakdown_parts.h"
#include "reports/format.h"
#include "reports/section.h"

namespace steplens {
namespace {

// " against baseline: 12.30 ms less (110.2 ms to 97.90 ms a traced step)."
std::string text_of(const TracedArm& arm, const Waterfall& waterfall) {
  const std::int64_t change_ns = waterfall.difference_ns;
  return fmt::format(
      " against {}: {}{} ({} to {} a traced step){}", arm.reference,
      format_duration_ns(static_cast<double>(change_ns < 0 ? -change_ns : change_ns)),
      change_ns < 0 ? " less" : " more",
      format_duration_ns(static_cast<double>(waterfall.reference_step_ns)),
      format_duration_ns(static_cast<double>(waterfall.candidate_step_ns)),
      is_distorted(arm) ? ". DISTORTED: tracing changed what it measures." : ".");
}

struct Comparison {
  const TracedArm* arm;
  Waterfall waterfall;
};

std::vector<Comparison> comparisons_of(std::span<const TracedArm> arms) {
  std::vector<Comparison> comparisons;
  for (const TracedArm& arm : arms) {
    const TracedArm* reference = find_traced_arm(arms, arm.reference);
    if (arm.reference.empty() || reference == nullptr) continue;
    std::optional<Waterfall> waterfall = compute_waterfall(reference->breakdown, arm.breakdown);
    if (waterfall) comparisons.push_back({.arm = &arm, .waterfall = std::move(*waterfall)});
  }
  return comparisons;
}

}  // namespace

std::vector<Part> waterfall_parts(const ReportInput& input) {
  std::vector<Part> parts;
  const std::vector<Comparison> comparisons = comparisons_of(input.traced_arms);
  std::int64_t largest_ns = 0;
  for (const Comparison& comparison : comparisons) {
    largest_ns = std::max(largest_ns, std::abs(comparison.waterfall.difference_ns));
  }
  for (const auto& [arm, waterfall] : comparisons) {
    parts.emplace_back(Fold{.subject = arm->arm,
                            .text = text_of(*arm, waterfall),
                            .is_open = std::abs(waterfall.difference_ns) == largest_ns});
    parts.emplace_back(
        Image{.file_name = {},
              .description = fmt::format("From the step of {} to that of {}, by category and class "
                                         "of idle time.",
                                         arm->reference, arm->arm),
              .svg = waterfall_svg(waterfall, arm->reference, arm->arm)});
    parts.emplace_back(waterfall_table(waterfall, waterfall.categories));
    parts.emplace_back(waterfall_table(waterfall, waterfall.phases));
    Table kernels = kernel_change_table(waterfall);
    if (!kernels.rows.empty()) parts.emplace_back(std::move(kernels));
  }
  if (!parts.empty()) {
    parts.emplace_back(FoldEnd());
    parts.emplace_back(Paragraph{
        "Each column of differences sums to the difference of the steps, to the nanosecond: every "
        "moment belongs to one operation or to one class of idle time. A traced step explains an "
        "effect; how large the effect is, the matrix says."});
  }
  return parts;
}

}  // namespace steplens
