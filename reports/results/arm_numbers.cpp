#include "reports/results/arm_numbers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/flops.h"
#include "harness/json_field.h"
#include "harness/statistics.h"
#include "reports/pairs.h"
#include "reports/results/averages.h"

namespace steplens {
namespace {

using nlohmann::json;
using Blocks = std::vector<const BlockRecord*>;

std::optional<std::int64_t> to_integer(std::optional<double> value) {
  return value ? std::optional<std::int64_t>(std::llround(*value)) : std::nullopt;
}

OutlierCounts operator+(const OutlierCounts& a, const OutlierCounts& b) {
  return {.num_mild = a.num_mild + b.num_mild,
          .num_severe = a.num_severe + b.num_severe,
          .num_mad = a.num_mad + b.num_mad};
}

std::vector<double> to_doubles(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

void add_rates(const Blocks& blocks, ArmResult& row) {
  if (blocks.empty()) return;
  const auto all = [&](auto get) {
    return collect(blocks, [&](const BlockRecord& block) { return std::optional(get(block)); });
  };
  row.positions_per_s = geometric_mean_of(all(positions_per_s));
  row.valid_tokens_per_s = geometric_mean_of(all(valid_tokens_per_s));
  row.loss_tokens_per_s = geometric_mean_of(all(loss_tokens_per_s));
  row.step_wall_ns = geometric_mean_of(all(mean_step_wall_ns));
  row.step_gpu_ns = geometric_mean_of(collect(blocks, [](const BlockRecord& block) {
    return mean_of(to_doubles(block.steps.step_gpu_ns));
  }));

  std::vector<double> pooled_steps;
  std::int64_t data_wait_ns = 0;
  std::int64_t wall_ns = 0;
  for (const BlockRecord* block : blocks) {
    const std::vector<double> steps = to_doubles(block->steps.step_wall_ns);
    row.step_outliers = row.step_outliers + count_outliers(steps);
    pooled_steps.insert(pooled_steps.end(), steps.begin(), steps.end());
    data_wait_ns += sum_of(block->steps.data_wait_ns);
    wall_ns += sum_of(block->steps.step_wall_ns);
  }
  row.pooled_step_p50_ns = percentile(pooled_steps, 0.50);
  row.pooled_step_p90_ns = percentile(pooled_steps, 0.90);
  row.pooled_step_p99_ns = percentile(pooled_steps, 0.99);
  row.data_wait_ratio = static_cast<double>(data_wait_ns) / static_cast<double>(wall_ns);

  const std::vector<double> log_rates =
      all([](const BlockRecord& block) { return std::log(valid_tokens_per_s(block)); });
  row.block_outliers = count_outliers(log_rates);
  if (log_rates.size() >= 2) {
    row.block_sd_ratio = successive_difference_standard_deviation(log_rates);
  }
  row.compile_ns = median_of(collect(blocks, [](const BlockRecord& block) {
    return block.compile_ns ? std::optional(static_cast<double>(*block.compile_ns)) : std::nullopt;
  }));
}

void add_memory(const Blocks& blocks, ArmResult& row) {
  const auto median_in = [&](json BlockRecord::* part, std::string_view key) {
    return to_integer(median_of(
        collect(blocks, [&](const BlockRecord& block) { return number_at(block.*part, key); })));
  };
  const auto memory = [&](std::string_view key) { return median_in(&BlockRecord::memory, key); };
  const auto samples = [&](std::string_view key) { return median_in(&BlockRecord::samples, key); };
  row.peak_allocated_bytes = memory("peak_allocated_bytes");
  row.peak_reserved_bytes = memory("peak_reserved_bytes");
  row.graph_pool_hidden_bytes = memory("graph_pool_hidden_bytes");
  row.num_alloc_retries = memory("num_alloc_retries");
  row.unaccounted_bytes = memory("unaccounted_bytes");
  // A sampler sees the peak; without one there is the value at the block's end.
  row.driver_used_bytes = samples("max_memory_used_bytes");
  if (!row.driver_used_bytes) row.driver_used_bytes = memory("driver_used_bytes");
  row.peak_rss_bytes = memory("peak_rss_bytes");
  if (!row.peak_rss_bytes) row.peak_rss_bytes = samples("peak_rss_bytes");
}

// The worker's host begins to sample while the last warm-up step is still on the device, which is
// about a step more than is measured: the energy of the window is taken in proportion.
double measured_share_of_window(const BlockRecord& block) {
  const double window_ns = number_at(block.samples, "duration_ns").value_or(0);
  const auto measured_ns = static_cast<double>(block.measured_wall_ns);
  return window_ns > 0 && measured_ns > 0 ? measured_ns / window_ns : 1;
}

// Energy of the GPUs that were read, and the tokens that went through them. A block of several
// ranks has rank 0's samples; bundles before the rows of ranks had energies know of no other GPU.
void add_energy(const BlockRecord& block, double& energy_j, std::int64_t& num_tokens) {
  const auto own = number_at(block.samples, "energy_j");
  const double share = measured_share_of_window(block);
  if (block.world_size == 1) {
    if (!own) return;
    energy_j += share * *own;
    num_tokens += sum_of(block.steps.num_valid_tokens);
    return;
  }
  if (!block.evidence.contains("ranks")) return;
  for (const json& row : block.evidence["ranks"]) {
    auto energy = number_at(row, "energy_j");
    if (!energy && number_at(row, "rank") == 0.0) energy = own;
    const auto tokens = number_at(row, "num_valid_tokens");
    if (!energy || !tokens) continue;
    energy_j += share * *energy;
    num_tokens += std::llround(*tokens);
  }
}

void add_samples(const Blocks& blocks, ArmResult& row) {
  const auto samples = [&](std::string_view key) {
    return collect(blocks, [&](const BlockRecord& block) { return number_at(block.samples, key); });
  };
  row.mean_power_watts = mean_of(samples("mean_power_watts"));
  row.mean_sm_clock_mhz = mean_of(samples("mean_sm_clock_mhz"));
  const std::vector<double> temperatures = samples("max_temperature_celsius");
  if (!temperatures.empty()) row.max_temperature_celsius = *std::ranges::max_element(temperatures);

  double energy_j = 0;
  std::int64_t num_tokens = 0;
  double cpu_ns = 0;
  double sampled_ns = 0;
  std::map<std::string, std::vector<double>> throttle_shares;
  for (const BlockRecord* block : blocks) {
    add_energy(*block, energy_j, num_tokens);
    const auto cpu = number_at(block->samples, "cpu_time_ns");
    const auto sampled = number_at(block->samples, "duration_ns");
    if (cpu && sampled) {
      cpu_ns += *cpu;
      sampled_ns += *sampled;
    }
    if (!block->samples.is_object() || !block->samples.contains("throttle_shares")) continue;
    const json& shares = block->samples.at("throttle_shares");
    if (!shares.is_object()) continue;
    for (const auto& [name, share] : shares.items()) {
      if (share.is_number()) throttle_shares[name].push_back(share.get<double>());
    }
  }
  if (num_tokens > 0) row.energy_per_token_j = energy_j / static_cast<double>(num_tokens);
  if (sampled_ns > 0) row.cpu_time_ratio = cpu_ns / sampled_ns;
  for (const auto& [name, shares] : throttle_shares) {
    row.throttle_shares[name] = mean_of(shares).value_or(0);
  }
}

void add_mfu(const Manifest& manifest, const Arm& arm, ArmResult& row) {
  try {
    row.num_matmul_parameters = num_matmul_parameters(arm.config.shape);
  } catch (const ConfigError& error) {
    row.mfu_reason = error.what();
    return;
  }
  if (manifest.gpu_name.empty()) {
    row.mfu_reason = "no GPU, so no peak to compare with";
    return;
  }
  const std::optional<PeakFlops> peak = peak_bf16_flops_per_s(manifest.gpu_name);
  if (!peak) {
    row.mfu_reason = fmt::format("the peak of {} is not known", manifest.gpu_name);
    return;
  }
  if (arm.config.precision != Precision::kBf16 && arm.config.precision != Precision::kFp16) {
    row.mfu_reason =
        fmt::format("the bf16 peak does not apply to {}", name_of(arm.config.precision));
    return;
  }
  if (arm.contract == Contract::kLowerPrecision) {
    row.mfu_reason = "the bf16 peak does not apply to a lower precision";
    return;
  }
  if (arm.contract == Contract::kForwardOnly) {
    row.mfu_reason = "a forward pass alone does not do a training step's operations";
    return;
  }
  row.peak_flops_per_s = peak->flops_per_s;
  row.peak_source = peak->source;
  if (!row.positions_per_s) return;
  try {
    // Each rank has a GPU, and positions are those of all of them.
    const Mfu mfu = model_flops_utilization(
        arm.config.shape, arm.config.sequence_length,
        *row.positions_per_s / static_cast<double>(arm.config.world_size), *peak);
    row.mfu_causal_ratio = mfu.mfu_causal_ratio;
    row.mfu_full_ratio = mfu.mfu_full_ratio;
  } catch (const ConfigError& error) {
    row.mfu_reason = error.what();
  }
}

}  // namespace

ArmResult describe_arm(const Bundle& bundle, const Arm& arm) {
  ArmResult row{.name = arm.name,
                .toggle = arm.toggle,
                .level = arm.level,
                .is_baseline = arm.is_baseline,
                .is_external = !arm.command.empty(),
                .reference = arm.reference,
                .contract = arm.contract,
                .is_applicable = arm.not_applicable_reason.empty(),
                .reason = arm.not_applicable_reason};
  const Blocks blocks = usable_blocks(bundle, arm.name);
  row.num_rounds = static_cast<int>(blocks.size());
  add_rates(blocks, row);
  add_memory(blocks, row);
  add_samples(blocks, row);
  add_mfu(bundle.manifest, arm, row);
  return row;
}

}  // namespace steplens
