#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/workloads/tiny_config.h"
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include "harness/run_config.h"
#include "workloads/train_step.h"

namespace steplens {

inline at::Tensor long_tensor(const std::vector<std::int64_t>& values, std::int64_t num_rows,
                              std::int64_t length) {
  return at::from_blob(const_cast<std::int64_t*>(values.data()), {num_rows, length}, at::kLong)
      .clone();
}

/// Rows of random tokens; in row r only the first `num_targets[r]` positions have a target, which
/// is a fixed function of the token, so that a model learns it within tens of steps.
inline DeviceMicroBatch random_rows(const RunConfig& config,
                                    const std::vector<std::int64_t>& num_targets,
                                    std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> token(0, config.shape.vocab_size - 1);
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> targets;
  for (const std::int64_t count : num_targets) {
    for (std::int64_t t = 0; t < config.sequence_length; ++t) {
      tokens.push_back(token(random));
      targets.push_back(t < count ? (7 * tokens.back() + 3) % config.shape.vocab_size : -100);
    }
  }
  const auto num_rows = static_cast<std::int64_t>(num_targets.size());
  return {.tokens_BT = long_tensor(tokens, num_rows, config.sequence_length),
          .targets_BT = long_tensor(targets, num_rows, config.sequence_length)};
}

/// Rows [begin, end) of a micro-batch.
inline DeviceMicroBatch rows_of(const DeviceMicroBatch& batch, std::int64_t begin,
                                std::int64_t end) {
  return {.tokens_BT = batch.tokens_BT.narrow(0, begin, end - begin),
          .targets_BT = batch.targets_BT.narrow(0, begin, end - begin)};
}

inline std::int64_t num_targets_of(const DeviceMicroBatch& batch) {
  return batch.targets_BT.ne(-100).sum().item<std::int64_t>();
}

}  // namespace steplens
