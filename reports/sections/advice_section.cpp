#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/advice/advice.h"
#include "reports/matrix_table.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::vector<Finding> findings_of(const ReportInput& input, std::string_view arm) {
  return advise(advice_input(input.bundle, input.results, arm, input.traced_arms,
                             input.counter_arms, input.memory_arms));
}

void add_details(const std::vector<Finding>& findings, std::vector<Part>& parts) {
  for (const Finding& finding : findings) {
    parts.emplace_back(Fold{.subject = finding.title,
                            .text = fmt::format(" ({}, {}): {}", name_of(finding.severity),
                                                gain_text(finding), finding.message)});
    BulletList list;
    for (const Evidence& item : finding.evidence) list.items.push_back(item.text);
    list.items.push_back("Bound: " + finding.bound + ".");
    if (!finding.measured.empty()) {
      list.items.push_back("Measured here: " + finding.measured + ".");
    }
    parts.emplace_back(std::move(list));
    if (!finding.command.empty()) parts.emplace_back(CodeBlock{finding.command});
  }
}

// One row an arm other than the baseline in which something was found.
Table other_arms(const ReportInput& input, std::string_view baseline) {
  Table table{.columns = {{"arm"}, {"findings, with what there is to gain at best"}}};
  for (const ArmResult* row : table_order(input.results)) {
    if (row->name == baseline || !row->is_applicable) continue;
    std::vector<std::string> words;
    for (const Finding& finding : findings_of(input, row->name)) {
      words.push_back(fmt::format("{} ({})", finding.title, gain_text(finding)));
    }
    if (!words.empty())
      table.rows.push_back({row->name, fmt::format("{}", fmt::join(words, "; "))});
  }
  return table;
}

}  // namespace

std::vector<Part> advice_parts(const ReportInput& input) {
  // An A/A compares nothing, so there is nothing to do next.
  const ArmResult* baseline = baseline_of(input.results);
  if (baseline == nullptr || input.bundle.manifest.num_aa > 0) return {};
  const std::vector<Finding> findings = findings_of(input, baseline->name);
  Table others = other_arms(input, baseline->name);
  if (findings.empty() && others.rows.empty()) return {};
  std::vector<Part> parts;
  if (findings.empty()) {
    parts.emplace_back(Paragraph{"No rule finds anything in the baseline."});
  } else {
    parts.emplace_back(
        Paragraph{"What rules find in the baseline, the most to gain first. A gain at best is an "
                  "upper bound from where the step's time goes; what a switch really gives, a "
                  "matrix says."});
    parts.emplace_back(advice_table(findings));
    add_details(findings, parts);
    parts.emplace_back(FoldEnd());
  }
  if (!others.rows.empty()) {
    parts.emplace_back(
        Paragraph{"In the other arms (steplens advise BUNDLE --arm ARM says more):"});
    parts.emplace_back(std::move(others));
  }
  return parts;
}

}  // namespace steplens
