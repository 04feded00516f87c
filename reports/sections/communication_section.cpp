#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "reports/communication/communication_parts.h"
#include "reports/format.h"
#include "reports/pairs.h"
#include "reports/section.h"

namespace steplens {
namespace {

std::vector<std::int64_t> all_reduce_bytes(const Bundle& bundle, const std::string& arm) {
  const BlockRecord* pilot = find_pilot(bundle, arm);
  if (pilot == nullptr || !pilot->evidence.is_object()) return {};
  const auto it = pilot->evidence.find("all_reduce_bytes");
  if (it == pilot->evidence.end() || !it->is_array()) return {};
  std::vector<std::int64_t> bytes;
  for (const nlohmann::json& value : *it) {
    if (value.is_number_integer()) bytes.push_back(value.get<std::int64_t>());
  }
  return bytes;
}

std::optional<double> rank_skew_ratio(const Bundle& bundle, const std::string& arm) {
  double sum = 0;
  int count = 0;
  for (const BlockRecord* block : usable_blocks(bundle, arm)) {
    if (!block->evidence.is_object()) continue;
    const auto it = block->evidence.find("rank_skew_ratio");
    if (it == block->evidence.end() || !it->is_number()) continue;
    sum += it->get<double>();
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::vector<RankedArm> ranked_arms(const ReportInput& input) {
  std::vector<RankedArm> arms;
  for (const TracedArm& traced : input.traced_arms) {
    const Arm* arm = find_arm(input.bundle.manifest, traced.arm);
    if (arm == nullptr || arm->config.world_size == 1 || traced.communication.ranks.empty()) {
      continue;
    }
    arms.push_back({.traced = &traced,
                    .config = arm->config,
                    .all_reduce_bytes = all_reduce_bytes(input.bundle, traced.arm),
                    .rank_skew_ratio = rank_skew_ratio(input.bundle, traced.arm)});
  }
  return arms;
}

}  // namespace

std::vector<Part> communication_parts(const ReportInput& input) {
  const std::vector<RankedArm> arms = ranked_arms(input);
  if (arms.empty()) return {};
  const RankedArm& first = arms.front();
  std::vector<Part> parts;
  parts.emplace_back(communication_table(arms));
  parts.emplace_back(Paragraph{fmt::format(
      "Means a step of rank 0, of {} ranks. Sent a rank is what a ring all-reduce of the pilot's "
      "gradients sends, 2 (W - 1) / W of their bytes; the formula has all trained parameters once "
      "an optimizer step with no_sync and once a micro-step without. Bus bandwidth is the former / "
      "communication. Exposed is what computation did not hide. Start skew: how much later the "
      "last rank began the same all-reduce than the first, on one clock; step skew: (longest - "
      "shortest step of the ranks) / longest, in blocks that were not traced.",
      first.config.world_size)});
  parts.emplace_back(Fold{.subject = "Ranks and buckets",
                          .text = fmt::format(" of {}, in one step.", first.traced->arm)});
  parts.emplace_back(rank_table(first));
  if (Table buckets = bucket_table(first); !buckets.rows.empty()) {
    const std::size_t num_left = first.traced->communication.timeline.size() - buckets.rows.size();
    parts.emplace_back(std::move(buckets));
    if (num_left > 0) parts.emplace_back(Paragraph{fmt::format("{} more follow.", num_left)});
  }
  parts.emplace_back(FoldEnd{});
  return parts;
}

}  // namespace steplens
