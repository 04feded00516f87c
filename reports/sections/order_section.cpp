#include <fmt/format.h>

#include "reports/plots/step_plots.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string drift_text(const Results& results) {
  if (!results.has_drift) return "Too few rounds are complete to tell whether the machine drifted.";
  return *results.has_drift
             ? "Drift: from one round to the next the machine changed by more than 1.5 times the "
               "noise of a block."
             : "No drift: from one round to the next the machine changed by at most 1.5 times the "
               "noise of a block.";
}

std::string throttled_text(const Bundle& bundle) {
  int num_throttled = 0;
  int num_sampled = 0;
  for (const BlockRecord& block : bundle.blocks) {
    if (block.kind != BlockKind::kThroughput || !block.samples.is_object()) continue;
    const auto it = block.samples.find("is_throttled_by_hardware");
    if (it == block.samples.end() || !it->is_boolean()) continue;
    ++num_sampled;
    num_throttled += it->get<bool>() ? 1 : 0;
  }
  if (num_sampled == 0) return "Whether hardware throttled is not known here.";
  return fmt::format("Hardware throttled in {} of {} blocks.", num_throttled, num_sampled);
}

}  // namespace

std::vector<Part> order_parts(const ReportInput& input) {
  std::string svg = run_order_svg(input.bundle, input.results);
  if (svg.empty()) return {};
  return {
      Paragraph{drift_text(input.results) + " " + throttled_text(input.bundle)},
      Image{.file_name = {},
            .description = "Every throughput block at the time at which it ran: its rate against "
                           "the mean of its arm, and the machine's state below. A comparison is "
                           "made within a round, so slow drift cancels out; a jump within a "
                           "round does not.",
            .svg = std::move(svg)}};
}

}  // namespace steplens
