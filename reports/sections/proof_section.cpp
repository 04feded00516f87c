#include <fmt/format.h>

#include "reports/format.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string_view words_of(std::optional<bool> holds) {
  if (!holds) return "not checked";
  return *holds ? "yes" : "NO";
}

std::string count(std::optional<double> value) {
  return format_or_absent(value, [](double number) { return format_significant(number); });
}

}  // namespace

std::vector<Part> proof_parts(const ReportInput& input) {
  if (input.results.aa) return {};
  Table table{.columns = {{"arm"},
                          {"claim"},
                          {"its count", Align::kRight},
                          {"reference's", Align::kRight},
                          {"holds"}}};
  std::vector<std::string> unchecked;
  for (const ArmResult& arm : input.results.arms) {
    if (arm.reference.empty() || !arm.is_applicable) continue;
    for (const ProofCheck& check : arm.proof_checks) {
      table.rows.push_back({arm.name, describe(check), count(check.candidate_count),
                            count(check.reference_count), std::string(words_of(check.holds))});
    }
    if (arm.proof == Proof::kNotChecked) {
      unchecked.push_back(fmt::format("{} is not checked: {}", arm.name, arm.proof_reason));
    }
  }
  std::vector<Part> parts;
  if (!table.rows.empty()) {
    parts.emplace_back(Paragraph{
        "Counted in a pilot of each arm, a step of the optimizer each: what really ran. An "
        "arm whose claim does not hold gets no verdict on speed."});
    parts.emplace_back(std::move(table));
  }
  if (!unchecked.empty()) parts.emplace_back(BulletList{unchecked});
  return parts;
}

}  // namespace steplens
