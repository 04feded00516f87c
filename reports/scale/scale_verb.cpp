#include "reports/scale/scale_verb.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/breakdown/read_traced_arms.h"
#include "reports/format.h"
#include "reports/scale/scale_parts.h"

namespace steplens {
namespace {

constexpr std::int64_t kMostGpus = 4096;

const TracedArm& traced_arm_named(const std::vector<TracedArm>& arms, const std::string& name) {
  if (arms.empty()) throw ConfigError("the bundle has no trace: `--trace-steps` makes them");
  if (name.empty()) return arms.front();
  if (const TracedArm* arm = find_traced_arm(arms, name)) return *arm;
  std::vector<std::string> names;
  names.reserve(arms.size());
  for (const TracedArm& arm : arms) names.push_back(arm.arm);
  throw ConfigError(
      fmt::format("arm={}: has no trace there; takes {}", name, fmt::join(names, ", ")));
}

}  // namespace

int scale_verb(const ScaleVerbOptions& options) {
  for (const std::int64_t count : options.num_gpus) {
    if (count < 1 || count > 1'000'000) {
      throw ConfigError(fmt::format("gpus={}: takes integers from 1 to 1000000", count));
    }
  }
  const Links links = links_named(options.links);
  const Bundle bundle = open_bundle(options.bundle);
  const std::vector<TracedArm> arms = read_traced_arms(bundle, compute_results(bundle));
  const TracedArm& traced = traced_arm_named(arms, options.arm);
  const Arm* arm = find_arm(bundle.manifest, traced.arm);
  SL_CHECK(arm != nullptr);
  const ScaleCurve curve =
      scale_curve(arm->config, traced, links,
                  options.num_gpus.empty() ? gpu_counts(kMostGpus) : options.num_gpus);
  if (options.is_json) {
    fmt::print("{}\n", to_json(curve).dump(2));
  } else {
    fmt::print("{}\n{}\n", to_text(scale_table(curve)), wrap(scale_assumptions(curve), 0));
  }
  return 0;
}

void add_scale_verb(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ScaleVerbOptions>();
  CLI::App* verb = app.add_subcommand("scale", "predict what more GPUs would do, from one");
  verb->add_option("bundle", options->bundle, "folder of the bundle")->required();
  verb->add_option("--arm", options->arm, "an arm with a trace (default: the baseline)");
  verb->add_option("--links", options->links,
                   "h200-nvlink, h200-infiniband, or a .json file (default h200-infiniband)");
  verb->add_option("--gpus", options->num_gpus, "numbers of GPUs (default 1,2,4,...,4096)")
      ->delimiter(',');
  verb->add_flag("--json", options->is_json, "print JSON");
  verb->footer(
      "Takes the phases of one rank's trace, the buckets that the Reducer would make, and what "
      "the\n"
      "links need for an all-reduce; prints its assumptions.\n"
      "Example: steplens scale runs/first --links h200-nvlink --gpus 1,2,4,8");
  verb->callback([options, &exit_code] { exit_code = scale_verb(*options); });
}

}  // namespace steplens
