#pragma once

#include <nlohmann/json.hpp>

#include "harness/block.h"
#include "workloads/block/step_runner.h"
#include "workloads/memory_tracker.h"
#include "workloads/train_step.h"

namespace steplens {

/// The account of a memory block: tells the tracker whose memory is whose.
class BlockMemory {
 public:
  /// Make it before the first tensor of the run. `block` must outlive it.
  explicit BlockMemory(const BlockConfig& block) : block_(block), tracker_(block.config) {}

  /// Parameters and optimizer state are owned from here on. `train_step` must outlive the steps.
  void own_lasting(const TrainStep& train_step);
  /// Its gradients, as they are now.
  void own_gradients(const TrainStep& train_step);

  void begin_window() { tracker_.begin_window(); }
  void run_step(StepRunner& steps, StepArrays& arrays);
  void stop() { tracker_.stop(); }

  /// Into the block's folder, under the name of this rank's trace.
  void write() const;

 private:
  const BlockConfig& block_;
  MemoryTracker tracker_;
  const TrainStep* train_step_ = nullptr;
};

std::vector<at::Tensor> parameters_of(const TrainStep& train_step);
std::vector<at::Tensor> trained_parameters_of(const TrainStep& train_step);

/// What a step cannot do without, known without a tracker: bytes of "parameters", "gradients",
/// "optimizer_state".
nlohmann::json kept_bytes(const TrainStep& train_step);

}  // namespace steplens
