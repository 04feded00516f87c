#include "harness/ranks/world_record.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/error.h"

namespace steplens {
namespace {

using nlohmann::json;

void add(StepArrays& sum, const StepArrays& other) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum.num_positions[i] += other.num_positions[i];
    sum.num_valid_tokens[i] += other.num_valid_tokens[i];
    sum.num_loss_tokens[i] += other.num_loss_tokens[i];
    sum.loss[i] += other.loss[i];  // Shares of one mean over the tokens of all ranks.
    sum.data_wait_ns[i] = std::max(sum.data_wait_ns[i], other.data_wait_ns[i]);
  }
}

json row_of(const BlockRecord& record) {
  const auto total = [](const std::vector<std::int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  const StepArrays& steps = record.steps;
  json row = {{"rank", record.rank},
              {"num_valid_tokens", total(steps.num_valid_tokens)},
              {"data_wait_ns", total(steps.data_wait_ns)},
              {"data_hash", record.data_hash}};
  row["mean_step_wall_ns"] = steps.size() == 0 ? json(nullptr) : json(mean_step_wall_ns(record));
  for (const char* name : {"peak_allocated_bytes", "peak_rss_bytes"}) {
    if (record.memory.contains(name)) row[name] = record.memory[name];
  }
  for (const char* name : {"energy_j", "mean_power_watts", "mean_sm_clock_mhz"}) {
    if (record.samples.contains(name)) row[name] = record.samples[name];
  }
  return row;
}

// Absent without a measured step.
json skew_ratio(const std::vector<BlockRecord>& ranks) {
  const std::size_t num_steps = ranks.front().steps.size();
  double sum = 0;
  for (std::size_t i = 0; i < num_steps; ++i) {
    std::int64_t shortest_ns = ranks.front().steps.step_wall_ns[i];
    std::int64_t longest_ns = shortest_ns;
    for (const BlockRecord& rank : ranks) {
      shortest_ns = std::min(shortest_ns, rank.steps.step_wall_ns[i]);
      longest_ns = std::max(longest_ns, rank.steps.step_wall_ns[i]);
    }
    sum += static_cast<double>(longest_ns - shortest_ns) / static_cast<double>(longest_ns);
  }
  return num_steps == 0 ? json(nullptr) : json(sum / static_cast<double>(num_steps));
}

// In what a rank contradicts rank 0; empty if in nothing.
std::string_view contradiction(const BlockRecord& first, const BlockRecord& other) {
  if (other.warmup.size() != first.warmup.size() || other.steps.size() != first.steps.size()) {
    return "did another number of steps than rank 0";
  }
  if (other.data_set_hash != first.data_set_hash) return "read other data than rank 0";
  if (other.weights_hash != first.weights_hash) return "began with other weights than rank 0";
  if (other.final_weights_hash != first.final_weights_hash) {
    return "ended with other weights than rank 0: their gradients were not the same";
  }
  return "";
}

}  // namespace

BlockRecord record_of_world(const std::vector<BlockRecord>& ranks, std::string data_hash) {
  SL_CHECK(!ranks.empty());
  BlockRecord world = ranks.front();
  json rows = json::array();
  for (const BlockRecord& rank : ranks) rows.push_back(row_of(rank));
  world.data_hash = std::move(data_hash);
  world.evidence["ranks"] = rows;
  for (const BlockRecord& rank : ranks) {
    if (rank.status == BlockStatus::kOk) continue;
    world.status = rank.status;
    world.reason = fmt::format("rank {}: {}", rank.rank, rank.reason);
    break;
  }
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const std::string_view fault = contradiction(ranks.front(), ranks[i]);
    if (!fault.empty()) {
      world.status = BlockStatus::kInvalid;
      world.reason = fmt::format("rank {} {}", ranks[i].rank, fault);
      return world;
    }
  }
  world.evidence["rank_skew_ratio"] = skew_ratio(ranks);
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    add(world.warmup, ranks[i].warmup);
    add(world.steps, ranks[i].steps);
  }
  return world;
}

}  // namespace steplens
