#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/guards.h"
#include "reports/metrics.h"
#include "reports/plots/step_plots.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::string against_tolerance(std::optional<double> deviation, std::optional<double> tolerance) {
  if (!tolerance && deviation) return format_deviation(*deviation) + ", no limit";
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
                          {.header = std::string(find_metric("loss_deviation_ratio")->title),
                           .metric = "loss_deviation_ratio"},
                          {.header = std::string(find_metric("grad_norm_deviation_ratio")->title),
                           .metric = "grad_norm_deviation_ratio"},
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
      Paragraph{fmt::format(
          "Checked in every round against the reference's block: warm-up and measured steps, "
          "tokens, data hash, initial weights, learning rates, that training changed the "
          "parameters, and the trajectories of loss and gradient norm over the first {} steps "
          "(mean |ratio - 1|, worst round, of what is allowed).",
          kNumTrajectorySteps)},
      std::move(table)};
  if (!failures.empty()) parts.emplace_back(BulletList{failures});
  parts.emplace_back(Image{
      .file_name = {},
      .description = "Loss and gradient norm of each arm's first pair of blocks, warm-up included, "
                     "one over the other; below, how far each step leaves the reference's. The "
                     "guard compares the mean over the steps, of every round.",
      .svg = trajectory_svg(input.bundle, input.results)});
  return parts;
}

}  // namespace steplens
