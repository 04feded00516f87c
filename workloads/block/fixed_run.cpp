#include "workloads/block/fixed_run.h"

#include <optional>
#include <vector>

#include "harness/statistics.h"
#include "harness/trace/range_names.h"
#include "workloads/block/block_data.h"
#include "workloads/block/block_memory.h"
#include "workloads/block/step_runner.h"
#include "workloads/device_info.h"
#include "workloads/ranges.h"

namespace steplens {
namespace {

// What the detector would have said of these steps; `events`: by step, warm-up included.
void judge_warmup(const BlockConfig& block, const std::vector<bool>& events, BlockRecord& record) {
  WarmupDetector detector;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::size_t num_warmup = record.warmup.size();
    detector.feed(
        i < num_warmup ? record.warmup.step_wall_ns[i] : record.steps.step_wall_ns[i - num_warmup],
        events[i]);
  }
  const std::optional<int> detected = detector.num_warmup_steps();
  record.evidence["detected_warmup_steps"] =
      detected ? nlohmann::json(*detected) : nlohmann::json(nullptr);
  record.evidence["warmup_disagrees"] = !detected || *detected > block.num_warmup_steps;
}

}  // namespace

void run_fixed(const BlockConfig& block, const BlockData& data, StepRunner& steps, Sampler& sampler,
               const std::function<void()>& after_steps, BlockMemory* memory, BlockRecord& record) {
  const auto clock = make_step_clock(block.config, block.num_warmup_steps, data.num_steps(),
                                     /*is_pilot=*/false);
  const bool is_sampled = block.config.instrumentation == Instrumentation::kFull;
  StepArrays all;
  std::vector<bool> events;
  clock->start();
  for (std::int64_t i = 0; i < data.num_steps(); ++i) {
    if (i == block.num_warmup_steps) {
      // The device goes on with the last warm-up step meanwhile: no pause in its queue.
      reset_memory_peaks(block.config);
      if (is_sampled) sampler.start();
      if (memory != nullptr) memory->begin_window();
    }
    const std::int64_t num_events_before = steps.num_events();
    if (memory != nullptr) {
      memory->run_step(steps, all);
    } else {
      steps.run(all);
    }
    clock->end_step();
    events.push_back(steps.num_events() != num_events_before);
  }
  if (memory != nullptr) memory->stop();
  {
    const ScopedRange fence(kFenceRangeName.data());
    record.measured_wall_ns = take_times(all, clock->finish());
  }
  if (is_sampled) record.samples = sampler.stop();
  if (after_steps) after_steps();
  split_steps(all, static_cast<std::size_t>(block.num_warmup_steps), record);
  judge_warmup(block, events, record);
}

}  // namespace steplens
