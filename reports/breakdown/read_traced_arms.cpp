#include "reports/breakdown/read_traced_arms.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/trace/merge_ranks.h"
#include "harness/trace/trace_reader.h"
#include "reports/matrix_table.h"
#include "reports/pairs.h"

namespace steplens {
namespace {

TracedArm read_arm(const ArmResult& row, const std::filesystem::path& path) {
  std::vector<Trace> ranks;
  for (const std::filesystem::path& rank : rank_trace_paths(path)) {
    ranks.push_back(read_trace(rank));
  }
  TracedArm arm{.arm = row.name,
                .reference = row.reference,
                .breakdown = compute_breakdown(ranks.front()),
                .throughput_step_ns = row.step_wall_ns};
  arm.roofline = compute_roofline(ranks.front(), arm.breakdown);
  arm.communication = compute_communication(merge_ranks(std::move(ranks)));
  return arm;
}

}  // namespace

std::vector<TracedArm> read_traced_arms(const Bundle& bundle, const Results& results) {
  std::vector<TracedArm> arms;
  for (const ArmResult* row : table_order(results)) {
    const std::filesystem::path path = trace_path(bundle, row->name);
    if (path.empty()) continue;
    try {
      arms.push_back(read_arm(*row, path));
    } catch (const ConfigError& error) {
      fmt::print(stderr, "steplens: no breakdown of {}: {}\n", row->name, error.what());
    }
  }
  return arms;
}

}  // namespace steplens
