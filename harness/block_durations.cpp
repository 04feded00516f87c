#include "harness/block_durations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>

#include "harness/statistics.h"
#include "harness/step_counts.h"

namespace steplens {
namespace {

std::vector<double> as_seconds(const std::vector<std::int64_t>& durations_ns) {
  std::vector<double> result;
  result.reserve(durations_ns.size());
  for (const std::int64_t duration_ns : durations_ns) {
    result.push_back(1e-9 * static_cast<double>(duration_ns));
  }
  return result;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

void BlockDurations::add(const BlockEntry& entry, const BlockRecord& record) {
  if (entry.status != BlockStatus::kOk) return;
  if (entry.kind == BlockKind::kThroughput) throughput_s_[entry.arm].push_back(entry.duration_s);
  if (entry.kind != BlockKind::kPilot) return;
  const std::vector<double> warmup_s = as_seconds(record.warmup.step_wall_ns);
  const std::vector<double> measured_s = as_seconds(record.steps.step_wall_ns);
  if (warmup_s.empty() && measured_s.empty()) return;
  double start_up_s = std::max(0.0, entry.duration_s - sum(warmup_s) - sum(measured_s));
  // The pilot compiles; blocks find what it compiled in a cache. What was compiled before the block
  // started is longer than its start.
  const double compile_s = 1e-9 * static_cast<double>(record.compile_ns.value_or(0));
  if (compile_s < start_up_s) start_up_s -= compile_s;
  pilots_[entry.arm] = {.start_up_s = start_up_s,
                        .step_s = median(measured_s.empty() ? warmup_s : measured_s)};
}

double BlockDurations::pilot_estimate_s(const Manifest& manifest, std::string_view arm_name,
                                        const PilotTiming& timing) const {
  const Arm* arm = find_arm(manifest, arm_name);
  // Until the pilots have decided: a usual warm-up and the most steps that are measured.
  constexpr StepCounts kUsual{.num_warmup_steps = 20, .num_measured_steps = 30};
  StepCounts counts = kUsual;
  if (arm != nullptr && manifest.num_warmup_steps > 0 && manifest.num_measured_steps > 0) {
    counts = counts_of({.num_warmup_steps = manifest.num_warmup_steps,
                        .num_measured_steps = manifest.num_measured_steps},
                       manifest.baseline, arm->config);
  }
  return timing.start_up_s +
         timing.step_s * static_cast<double>(counts.num_warmup_steps + counts.num_measured_steps);
}

double BlockDurations::expected_s(const Manifest& manifest, std::string_view arm) const {
  if (const auto own = throughput_s_.find(arm); own != throughput_s_.end()) {
    return median(own->second);
  }
  if (const auto pilot = pilots_.find(arm); pilot != pilots_.end()) {
    return pilot_estimate_s(manifest, arm, pilot->second);
  }
  std::vector<double> all;
  for (const auto& [name, durations] : throughput_s_) {
    all.insert(all.end(), durations.begin(), durations.end());
  }
  for (const auto& [name, timing] : pilots_) {
    all.push_back(pilot_estimate_s(manifest, name, timing));
  }
  return all.empty() ? kDefaultBlockS : median(all);
}

double BlockDurations::expected_s(const Manifest& manifest,
                                  const std::vector<std::string>& arms) const {
  double total_s = 0;
  for (const std::string& arm : arms) total_s += expected_s(manifest, arm);
  return total_s;
}

std::string duration_text(double duration_s) {
  const auto seconds = static_cast<std::int64_t>(std::llround(std::max(0.0, duration_s)));
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds % 3600 / 60);
}

}  // namespace steplens
