#include "workloads/block/step_runner.h"

#include <utility>

#include "harness/ranks/rank_progress.h"
#include "harness/trace/range_names.h"
#include "workloads/device_info.h"
#include "workloads/ranges.h"

namespace steplens {

void StepRunner::run(StepArrays& arrays) {
  note_step_begin();
  const ScopedRange range(kStepRangeName.data());
  FedStep fed = feed_.next();
  arrays.num_positions.push_back(fed.num_positions);
  arrays.num_valid_tokens.push_back(fed.num_valid_tokens);
  arrays.num_loss_tokens.push_back(fed.num_loss_tokens);
  arrays.data_wait_ns.push_back(fed.wait_ns);
  executor_.run(fed.step);
  ++num_steps_run_;
}

std::int64_t StepRunner::num_events() const {
  return num_allocator_events(config_) + (executor_.compile_ns() > 0 ? 1 : 0);
}

std::int64_t take_times(StepArrays& arrays, ClockedSteps times) {
  arrays.step_wall_ns = std::move(times.wall_ns);
  arrays.step_gpu_ns = std::move(times.gpu_ns);
  return times.measured_wall_ns;
}

void split_steps(const StepArrays& all, std::size_t num_warmup, BlockRecord& record) {
  const auto cut = [&](auto member) {
    const auto& source = all.*member;
    if (source.empty()) return;
    const auto middle = source.begin() + static_cast<std::ptrdiff_t>(num_warmup);
    (record.warmup.*member).assign(source.begin(), middle);
    (record.steps.*member).assign(middle, source.end());
  };
  cut(&StepArrays::step_wall_ns);
  cut(&StepArrays::step_gpu_ns);
  cut(&StepArrays::num_positions);
  cut(&StepArrays::num_valid_tokens);
  cut(&StepArrays::num_loss_tokens);
  cut(&StepArrays::data_wait_ns);
}

Counters difference(const Counters& after, const Counters& before) {
  Counters result;
  for (const auto& [name, count] : after) {
    const auto it = before.find(name);
    const std::int64_t change = count - (it == before.end() ? 0 : it->second);
    if (change != 0) result[name] = change;
  }
  return result;
}

}  // namespace steplens
