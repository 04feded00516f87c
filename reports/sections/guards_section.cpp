#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string against_tolerance(std::optional<double> deviation, std::optional<double> tolerance) {
  if (!tolerance) return "not compared";
  return fmt::format("{} of {}",
                     deviation ? format_deviation(*deviation) : std::string("not finite"),
                     format_deviation(*tolerance));
}

std::string variables(const ArmResult& arm) {
  return arm.differing_keys.empty() ? "none"
                                    : fmt::format("{}", fmt::join(arm.differing_keys, ", "));
}

}  // namespace

std::vector<Part> guards_parts(const ReportInput& input) {
  Table table{.columns = {{"arm"},
                          {"differs in"},
                          {"contract"},
                          {"loss deviation"},
                          {"gradient-norm deviation"},
                          {"guards"}}};
  std::vector<std::string> failures;
  for (const ArmResult& arm : input.results.arms) {
    if (arm.reference.empty() || arm.num_rounds == 0) continue;
    table.rows.push_back(
        {arm.name, variables(arm), std::string(name_of(arm.contract)),
         against_tolerance(arm.loss_deviation_ratio, arm.loss_tolerance_ratio),
         against_tolerance(arm.grad_norm_deviation_ratio, arm.grad_norm_tolerance_ratio),
         arm.guard_failures.empty() ? "pass" : "FAIL"});
    failures.insert(failures.end(), arm.guard_failures.begin(), arm.guard_failures.end());
  }
  if (table.rows.empty()) return {};
  std::vector<Part> parts = {
      Paragraph{
          "Checked in every round against the reference's block: warm-up and measured steps, "
          "tokens, data hash, initial weights, learning rates, that training changed the "
          "parameters, and the trajectories of loss and gradient norm over the first 60 steps "
          "(mean |ratio - 1|, worst round, of what is allowed)."},
      std::move(table)};
  if (!failures.empty()) parts.emplace_back(BulletList{failures});
  return parts;
}

}  // namespace steplens
