#include "workloads/block/pilot.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/cuda/CUDAFunctions.h>

#include "harness/statistics.h"
#include "harness/step_counts.h"
#include "workloads/block/block_data.h"
#include "workloads/block/block_world.h"
#include "workloads/block/step_runner.h"
#include "workloads/device_info.h"

namespace steplens {
namespace {

// Counters of what happens inside the step's code, which a replayed graph does not run again: a
// graph's count is that of its capture.
constexpr std::string_view kCountedInStep[] = {"forward_passes",
                                               "block_forwards",
                                               "loss_reads",
                                               "injected_spins",
                                               "fused_norms",
                                               "fused_ropes",
                                               "fused_mlps",
                                               "fused_losses",
                                               "multi_tensor_updates",
                                               "fused_embedding_gradients",
                                               "fused_residuals",
                                               "tuned_gemms",
                                               "matmuls_bf16",
                                               "matmuls_fp32",
                                               "matmuls_tf32",
                                               "all_reduces_after_backward",
                                               "graph_memsets_gathered",
                                               "graph_memsets_replaced",
                                               "attention_gradients_in_place"};

// The first steps do what is done once: measure products, allocate, capture the graph. That may
// take as long as a pilot may look for the end of its warm-up, and is none of that time.
std::size_t num_preparing_steps(const RunConfig& config) {
  return 1 + (config.graph ? static_cast<std::size_t>(num_steps_before_capture(config)) : 0);
}

// What an OperatorCounter saw.
struct Seen {
  Counters operators;
  std::vector<std::int64_t> all_reduce_bytes;
};

struct OfCapture {
  Seen seen;
  Counters events;
};

Seen seen_by(const OperatorCounter& counter) {
  return {.operators = counter.counts(), .all_reduce_bytes = counter.all_reduce_bytes()};
}

// Runs the step in which the graph is captured.
OfCapture run_capture(StepRunner& steps, StepArrays& arrays) {
  const OperatorCounter counter;
  const Counters before = event_counts();
  steps.run(arrays);
  return {.seen = seen_by(counter), .events = difference(event_counts(), before)};
}

Seen run_probe(const RunConfig& config, StepRunner& steps) {
  StepArrays arrays;
  const OperatorCounter counter;
  for (std::int64_t i = 0; i < kNumProbeSteps; ++i) steps.run(arrays);
  if (config.device == Device::kCuda) c10::cuda::device_synchronize();
  return seen_by(counter);
}

// Per optimizer step.
Counters counters(const RunConfig& config, const Counters& operators, const OfCapture& capture,
                  const CountsBefore& before, std::int64_t num_steps_run) {
  Counters result;
  for (const auto& [name, count] : operators) result[name] = count / kNumProbeSteps;
  for (const auto& [name, count] : capture.seen.operators) {
    // What the graph holds ran once, in the capture; "operators" stays what the host dispatches.
    if (name != "operators") result[name] = count;
  }
  for (const auto& [name, count] : difference(event_counts(), before.events)) {
    result[name] = name == "frozen_parameters" || name == "bf16_parameters"
                       ? count
                       : std::max<std::int64_t>(count > 0 ? 1 : 0,
                                                std::llround(static_cast<double>(count) /
                                                             static_cast<double>(num_steps_run)));
  }
  if (config.graph) {
    for (const std::string_view name : kCountedInStep) {
      const auto it = capture.events.find(std::string(name));
      if (it != capture.events.end()) result[it->first] = it->second;
    }
    for (const auto& [name, count] : capture.events) {
      if (name.starts_with("package_")) result[name] = count;
    }
  }
  result["expandable_segments"] = has_expandable_segments(config) ? 1 : 0;
  result["nvtx_ranges"] = (num_ranges_opened() - before.num_ranges) / num_steps_run;
  return result;
}

}  // namespace

void run_pilot(const BlockConfig& block, const BlockData& data, StepRunner& steps, Sampler& sampler,
               World* world, const CountsBefore& before, BlockRecord& record) {
  const RunConfig& config = block.config;
  const auto clock = make_step_clock(config, 0, data.num_steps(), /*is_pilot=*/true);
  WarmupDetector detector;
  StepArrays all;
  std::vector<bool> events;
  std::size_t num_fed = 0;
  OfCapture capture;
  const double limit_ns = block.max_pilot_s * 1e9;
  double elapsed_ns = 0;

  sampler.start();
  clock->start();
  for (std::int64_t i = 0; i < block.num_warmup_steps; ++i) {
    const std::int64_t num_events_before = steps.num_events();
    if (config.graph && i == num_steps_before_capture(config)) {
      capture = run_capture(steps, all);
    } else {
      steps.run(all);
    }
    events.push_back(steps.num_events() != num_events_before);
    const std::int64_t observed_ns = clock->end_step();
    bool is_enough = false;
    if (observed_ns >= 0) {
      if (num_fed >= num_preparing_steps(config)) elapsed_ns += static_cast<double>(observed_ns);
      is_enough = detector.feed(observed_ns, events[num_fed++]) || elapsed_ns > limit_ns;
    }
    if (as_rank_0_says(world, is_enough ? 1 : 0) != 0) break;
  }
  const std::size_t num_run = all.size();
  take_times(all, clock->finish());
  record.samples = sampler.stop();

  // The steps from the detected end of the warm-up on are the clean ones.
  const auto num_warmup = static_cast<std::size_t>(
      as_rank_0_says(world, detector.is_settled() ? *detector.num_warmup_steps()
                                                  : static_cast<std::int64_t>(num_run / 2)));
  split_steps(all, num_warmup, record);
  for (const std::int64_t wall_ns : record.steps.step_wall_ns) record.measured_wall_ns += wall_ns;
  record.evidence["detected_warmup_steps"] = num_warmup;
  record.evidence["warmup_settled"] = detector.is_settled();

  Seen probe = run_probe(config, steps);
  Counters result = counters(config, probe.operators, capture, before, steps.num_steps_run());
  result["distinct_row_lengths"] = data.num_distinct_row_lengths();
  record.evidence["counters"] = result;
  record.evidence["num_probe_steps"] = kNumProbeSteps;
  if (uses_reducer(config)) {
    // Of the last step: sizes of its buckets, in the order in which they were sent.
    std::vector<std::int64_t>& bytes = probe.all_reduce_bytes;
    bytes.erase(bytes.begin(), bytes.begin() + std::ssize(bytes) / kNumProbeSteps);
    record.evidence["all_reduce_bytes"] = config.graph ? capture.seen.all_reduce_bytes : bytes;
  }
}

}  // namespace steplens
