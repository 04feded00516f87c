#include <fmt/format.h>

#include "harness/error.h"
#include "reports/scale/scale_parts.h"
#include "reports/section.h"

namespace steplens {
namespace {

constexpr std::int64_t kMostGpus = 4096;

}  // namespace

std::vector<Part> scale_parts(const ReportInput& input) {
  if (input.results.aa) return {};
  for (const TracedArm& traced : input.traced_arms) {
    const Arm* arm = find_arm(input.bundle.manifest, traced.arm);
    const bool is_baseline = arm != nullptr && arm->reference.empty();
    if (!is_baseline || arm->config.device != Device::kCuda || arm->config.world_size > 1) continue;
    try {
      const ScaleCurve curve =
          scale_curve(arm->config, traced, links_named("h200-infiniband"), gpu_counts(kMostGpus));
      return {Paragraph{scale_assumptions(curve) + " `steplens scale` takes other arms and links."},
              Image{.file_name = {},
                    .description = "Predicted efficiency of 1 to 4096 GPUs",
                    .svg = scale_svg(curve)},
              Fold{.subject = "The curve in numbers", .text = "."}, scale_table(curve), FoldEnd{}};
    } catch (const ConfigError&) {
      return {};  // A trace without phases says nothing about more ranks.
    }
  }
  return {};
}

}  // namespace steplens
