#include "reports/communication/communication_parts.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/metrics.h"

namespace steplens {
namespace {

std::string time_or_none(double duration_ns) {
  return duration_ns == 0 ? std::string(kNoNumber) : format_duration_ns(duration_ns);
}

std::string gigabytes_per_s(double bytes, double duration_ns) {
  if (bytes == 0 || duration_ns == 0) return std::string(kNoNumber);
  return fmt::format("{:.3g} GB/s", bytes / duration_ns);
}

}  // namespace

Table communication_table(const std::vector<RankedArm>& arms) {
  Table table{.columns = {{"arm"},
                          {"all-reduces", Align::kRight},
                          {"sent a rank", Align::kRight},
                          {"/ formula", Align::kRight},
                          {"communication", Align::kRight},
                          metric_column("communication_exposed_ns", "exposed"),
                          {"hidden", Align::kRight},
                          {"bus bandwidth", Align::kRight},
                          {"start skew", Align::kRight},
                          {"step skew", Align::kRight}}};
  for (const RankedArm& arm : arms) {
    const CommunicationUse& use = arm.traced->communication;
    if (use.ranks.empty()) continue;
    const RankCommunication& first = use.ranks.front();
    const double bytes = static_cast<double>(
        std::accumulate(arm.all_reduce_bytes.begin(), arm.all_reduce_bytes.end(), std::int64_t{0}));
    const double sent = ring_bytes(bytes, arm.config.world_size);
    const double expected = ring_bytes_per_step(arm.config);
    table.rows.push_back({arm.traced->arm, format_mean_count(first.num_collectives),
                          bytes == 0 ? std::string(kNoNumber) : format_bytes(sent),
                          bytes == 0 || expected == 0 ? std::string(kNoNumber)
                                                      : fmt::format("{:.3f}", sent / expected),
                          time_or_none(first.communication_ns), time_or_none(first.exposed_ns),
                          time_or_none(first.overlapped_ns()),
                          gigabytes_per_s(sent, first.communication_ns),
                          format_or_absent(use.start_skew_ns, format_duration_ns),
                          format_or_absent(arm.rank_skew_ratio, format_percent)});
  }
  drop_absent_columns(table);
  return table;
}

Table rank_table(const RankedArm& arm) {
  Table table{.columns = {{"rank", Align::kRight},
                          metric_column("step_ns"),
                          {"communication", Align::kRight},
                          metric_column("communication_exposed_ns", "exposed"),
                          {"clock known within", Align::kRight}}};
  const std::vector<RankCommunication>& ranks = arm.traced->communication.ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    table.rows.push_back({std::to_string(i), time_or_none(ranks[i].step_ns),
                          time_or_none(ranks[i].communication_ns),
                          time_or_none(ranks[i].exposed_ns),
                          time_or_none(static_cast<double>(ranks[i].clock_uncertainty_ns))});
  }
  drop_absent_columns(table);
  return table;
}

Table bucket_table(const RankedArm& arm, std::size_t max_rows) {
  Table table{.columns = {{"all-reduce", Align::kRight},
                          {"bytes", Align::kRight},
                          {"starts after", Align::kRight},
                          {"takes", Align::kRight},
                          {"exposed", Align::kRight},
                          {"bus bandwidth", Align::kRight}}};
  const std::vector<Collective>& timeline = arm.traced->communication.timeline;
  // Sizes come from the pilot: they fit where it sent as many.
  const bool has_bytes = arm.all_reduce_bytes.size() == timeline.size();
  for (std::size_t i = 0; i < std::min(max_rows, timeline.size()); ++i) {
    const auto bytes = has_bytes ? static_cast<double>(arm.all_reduce_bytes[i]) : 0.0;
    const auto duration_ns = static_cast<double>(timeline[i].duration_ns);
    table.rows.push_back(
        {std::to_string(i), bytes == 0 ? std::string(kNoNumber) : format_bytes(bytes),
         format_duration_ns(static_cast<double>(timeline[i].start_ns)),
         format_duration_ns(duration_ns), time_or_none(static_cast<double>(timeline[i].exposed_ns)),
         gigabytes_per_s(ring_bytes(bytes, arm.config.world_size), duration_ns)});
  }
  drop_absent_columns(table);
  return table;
}

}  // namespace steplens
