#include "reports/interactions/interactions.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> interactions_parts(const ReportInput& input) {
  const std::vector<Interaction> interactions =
      compute_interactions(input.bundle, input.results.rule);
  if (interactions.empty()) return {};
  return {
      Image{.file_name = std::string(kInteractionsPlot),
            .description = "What each pair of switches gives beyond the product of both effects",
            .svg = interactions_svg(interactions)},
      interaction_table(interactions),
      Paragraph{"Of each round: the log-ratio of both switches together minus that of each "
                "alone, all against the round's baseline; mean with a t interval, p adjusted "
                "over the pairs by step-down max-T. Synergy: together more than the product of "
                "both effects. Overlap: less, because both win the same time or one undoes the "
                "other. Independent: the whole interval lies within one percent."}};
}

}  // namespace steplens
