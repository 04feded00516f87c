#include "workloads/block/block_memory.h"

#include <fmt/format.h>

#include "harness/trace/trace_writer.h"

namespace steplens {

void BlockMemory::own_lasting(const TrainStep& train_step) {
  train_step_ = &train_step;
  tracker_.own(parameters_of(train_step), MemoryOwner::kParameters);
  tracker_.own(train_step.optimizer().state(), MemoryOwner::kOptimizerState);
}

void BlockMemory::own_gradients(const TrainStep& train_step) {
  tracker_.own(gradients_of(train_step.model()), MemoryOwner::kGradients);
}

void BlockMemory::run_step(StepRunner& steps, StepArrays& arrays) {
  tracker_.begin_step(steps.num_steps_run());
  steps.run(arrays);
  // They live until the next step resets them, at the addresses of its first backward pass.
  own_gradients(*train_step_);
  tracker_.end_step();
}

void BlockMemory::write() const {
  const std::string name =
      block_.rank == 0 ? std::string(kTraceFileName) : fmt::format("trace.rank{}.slt", block_.rank);
  write_trace(block_.output_folder / name, tracker_.trace({{"kind", name_of(block_.kind)},
                                                           {"arm", block_.arm},
                                                           {"config", to_json(block_.config)},
                                                           {"rank", block_.rank}}));
}

std::vector<at::Tensor> parameters_of(const TrainStep& train_step) {
  std::vector<at::Tensor> parameters;
  for (const Parameter& parameter : train_step.model().parameters()) {
    parameters.push_back(parameter.value);
  }
  return parameters;
}

std::vector<at::Tensor> trained_parameters_of(const TrainStep& train_step) {
  std::vector<at::Tensor> parameters;
  for (const Parameter& parameter : train_step.model().parameters()) {
    if (parameter.is_trained) parameters.push_back(parameter.value);
  }
  return parameters;
}

nlohmann::json kept_bytes(const TrainStep& train_step) {
  const auto sum = [](const std::vector<at::Tensor>& tensors) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
    return bytes;
  };
  return {{"parameters", sum(parameters_of(train_step))},
          {"gradients", sum(gradients_of(train_step.model()))},
          {"optimizer_state", sum(train_step.optimizer().state())}};
}

}  // namespace steplens
