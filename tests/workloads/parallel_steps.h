#pragma once

#include <cstdint>
#include <vector>

#include "tests/workloads/tiny_model.h"

#include "workloads/train_step.h"

namespace steplens {

/// Optimizer steps of four micro-batches of four rows for the whole world. The first half of the
/// rows, which is rank 0's of two, has up to eight times the targets of the second; every fourth
/// step is a short group of three micro-batches.
inline std::vector<DeviceStep> make_world_steps(const RunConfig& config, std::int64_t num_steps) {
  std::vector<DeviceStep> steps;
  for (std::int64_t i = 0; i < num_steps; ++i) {
    DeviceStep step;
    const std::int64_t num_micro_steps = i % 4 == 3 ? 3 : 4;
    for (std::int64_t m = 0; m < num_micro_steps; ++m) {
      const auto seed = static_cast<std::uint64_t>(1000 * m + i);
      step.micro_batches.push_back(random_rows(config, {8, 7 - m, 1, 1 + m}, seed));
      step.num_loss_tokens += num_targets_of(step.micro_batches.back());
    }
    steps.push_back(step);
  }
  return steps;
}

/// The rows of one rank of `world_size`; the loss's denominator stays that of all.
inline DeviceStep share_of(const DeviceStep& step, int rank, int world_size) {
  DeviceStep share{.num_loss_tokens = step.num_loss_tokens};
  for (const DeviceMicroBatch& micro : step.micro_batches) {
    const std::int64_t num_rows = micro.tokens_BT.size(0) / world_size;
    share.micro_batches.push_back(
        {.tokens_BT = micro.tokens_BT.narrow(0, rank * num_rows, num_rows).contiguous(),
         .targets_BT = micro.targets_BT.narrow(0, rank * num_rows, num_rows).contiguous()});
  }
  return share;
}

/// All parameters, one after the other.
inline std::vector<float> flat_parameters(const Model& model) {
  std::vector<float> values;
  for (const Parameter& parameter : model.parameters()) {
    const at::Tensor flat = parameter.value.detach().contiguous().reshape({-1});
    const float* begin = flat.const_data_ptr<float>();
    values.insert(values.end(), begin, begin + flat.numel());
  }
  return values;
}

}  // namespace steplens
