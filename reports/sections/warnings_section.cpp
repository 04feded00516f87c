#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/matrix_table.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace steplens {
namespace {

// Labels, and what was measured more than once or not at all.
std::vector<std::string> flags_of(const ReportInput& input) {
  std::vector<std::string> flags;
  for (const ArmResult* arm : table_order(input.results)) {
    if (!arm->labels.empty()) {
      flags.push_back(fmt::format("{} is labelled: {}.", arm->name, fmt::join(arm->labels, ", ")));
    }
    if (arm->num_failed_blocks > 0) {
      flags.push_back(fmt::format("{}: {} of its blocks failed.", arm->name,
                                  format_count(arm->num_failed_blocks)));
    }
    if (const auto num_retries = arm->num_alloc_retries.value_or(0); num_retries > 0) {
      flags.push_back(fmt::format("{}: {} allocations a block succeeded only when tried again.",
                                  arm->name, format_count(num_retries)));
    }
    if (arm->block_outliers.num_mild + arm->block_outliers.num_severe > 0) {
      flags.push_back(
          fmt::format("{}: {} of its block rates are outliers; they are used like all others.",
                      arm->name, arm->block_outliers.num_mild + arm->block_outliers.num_severe));
    }
  }
  return flags;
}

std::string counts_text(const Results& results) {
  const auto num_failed = results.failures.size();
  return fmt::format("{} of {} planned rounds are complete, {} dropped; {} block{} failed.",
                     results.num_rounds_complete, results.num_rounds_planned,
                     results.num_rounds_dropped, num_failed, num_failed == 1 ? "" : "s");
}

// What of it could have stayed unseen.
std::string smallest_effect_text(const Results& results) {
  double smallest = 0;
  double largest = 0;
  for (const ArmResult& arm : results.arms) {
    if (!arm.min_detectable_ratio) continue;
    const double ratio = *arm.min_detectable_ratio - 1;
    smallest = smallest == 0 ? ratio : std::min(smallest, ratio);
    largest = std::max(largest, ratio);
  }
  if (largest == 0) {
    return "With fewer than 8 rounds no smallest effect is given that this run would have found; "
           "the half-widths of the intervals below say how fine it sees.";
  }
  return fmt::format(
      "The smallest effect that this run finds in 80 % of cases is {} to {}, by comparison: what "
      "is smaller may be there unseen.",
      format_percent(smallest), format_percent(largest));
}

}  // namespace

std::vector<Part> warnings_parts(const ReportInput& input) {
  std::vector<Part> parts = {Paragraph{counts_text(input.results)}};
  std::vector<std::string> warnings = all_warnings(input);
  if (warnings.empty()) {
    parts.emplace_back(Paragraph{"Warnings: none."});
  } else {
    parts.emplace_back(Paragraph{"Warnings:"});
    parts.emplace_back(BulletList{std::move(warnings)});
  }
  if (std::vector<std::string> flags = flags_of(input); !flags.empty()) {
    parts.emplace_back(Paragraph{"Flags:"});
    parts.emplace_back(BulletList{std::move(flags)});
  }
  parts.emplace_back(Paragraph{smallest_effect_text(input.results)});
  return parts;
}

}  // namespace steplens
