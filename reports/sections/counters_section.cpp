#include "reports/counters/counter_parts.h"
#include "reports/section.h"

namespace steplens {

std::vector<Part> counters_parts(const ReportInput& input) {
  std::vector<Part> parts;
  const std::vector<std::string> notes = counter_notes(input.counter_arms);
  if (!notes.empty()) parts.emplace_back(BulletList{notes});
  Table table = counter_table(input.counter_arms);
  if (table.rows.empty()) return parts;
  parts.emplace_back(std::move(table));
  parts.emplace_back(Paragraph{
      "Hardware counters of the whole GPU, sampled through the steps of a block of its own, as "
      "shares of what the hardware can do at most: means over the samples, and their 95th "
      "percentile. Sampled / throughput: step time with sampling and tracing against that "
      "without."});
  parts.emplace_back(Paragraph{"While operations of each phase ran:"});
  parts.emplace_back(counter_phase_table(input.counter_arms));
  return parts;
}

}  // namespace steplens
