#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string_view words_of(std::optional<bool> holds) {
  if (!holds) return "not checked";
  return *holds ? "yes" : "NO";
}

}  // namespace

std::vector<Part> proof_parts(const ReportInput& input) {
  if (input.results.aa) return {};
  Table table{.columns = {{"arm"},
                          {"claim"},
                          {"its count", Align::kRight},
                          {"reference's", Align::kRight},
                          {"holds"}}};
  std::map<std::string, std::vector<std::string>> unchecked;  // Maps a reason to its arms.
  for (const ArmResult& arm : input.results.arms) {
    if (arm.reference.empty() || !arm.is_applicable) continue;
    for (const ProofCheck& check : arm.proof_checks) {
      table.rows.push_back({arm.name, describe(check),
                            format_or_absent(check.candidate_count, format_mean_count),
                            format_or_absent(check.reference_count, format_mean_count),
                            std::string(words_of(check.holds))});
    }
    if (arm.proof == Proof::kNotChecked) {
      unchecked[arm.proof_reason].push_back(arm.name);
    }
  }
  std::vector<Part> parts;
  if (!table.rows.empty()) {
    parts.emplace_back(Paragraph{
        "Counted in a pilot of each arm and, with the prefix trace., in its trace, a step of the "
        "optimizer each: what really ran. An "
        "arm whose claim does not hold gets no verdict on speed."});
    parts.emplace_back(std::move(table));
  }
  BulletList list;
  for (const auto& [reason, arms] : unchecked) {
    list.items.push_back(fmt::format("Not checked, because {}: {}", reason, fmt::join(arms, ", ")));
  }
  if (!list.items.empty()) parts.emplace_back(std::move(list));
  return parts;
}

}  // namespace steplens
