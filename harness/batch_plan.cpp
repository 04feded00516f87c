#include "harness/batch_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

double step_flops(const RunConfig& config) {
  const bool is_checkpointed = config.checkpoint == Checkpoint::kFull;
  const HardwareWork work{.has_full_recompute = is_checkpointed,
                          .has_attention_recompute = is_checkpointed};
  return flops_per_token(config.shape, config.sequence_length, AttentionFlops::kCausal, work) *
         static_cast<double>(positions_per_step(config));
}

bool is_comparable(const RunConfig& config, const RunConfig& measured) {
  return config.device == measured.device && config.precision == measured.precision &&
         config.attention == measured.attention && config.shape == measured.shape;
}

// Smaller is nearer. A checkpointed step keeps other kernels busy than one that is not.
double distance(const RunConfig& config, const RunConfig& measured) {
  const double size = std::abs(std::log(static_cast<double>(micro_batch_size(config)) *
                                        static_cast<double>(config.sequence_length)) -
                               std::log(static_cast<double>(micro_batch_size(measured)) *
                                        static_cast<double>(measured.sequence_length)));
  return size + (config.checkpoint == measured.checkpoint ? 0 : 100) +
         (config.optimizer == measured.optimizer ? 0 : 0.01) +
         (config.graph == measured.graph ? 0 : 0.01);
}

bool is_better(const BatchChoice& left, const BatchChoice& right) {
  if (left.step_ns && right.step_ns) return *left.step_ns < *right.step_ns;
  if (left.config.checkpoint != right.config.checkpoint) {
    return left.config.checkpoint == Checkpoint::kOff;
  }
  return micro_batch_size(left.config) > micro_batch_size(right.config);
}

}  // namespace

std::optional<double> predict_step_ns(const RunConfig& config,
                                      const std::vector<MeasuredRate>& rates) {
  const MeasuredRate* nearest = nullptr;
  for (const MeasuredRate& rate : rates) {
    if (!is_comparable(config, rate.config) || rate.positions_per_s <= 0) continue;
    if (nearest == nullptr || distance(config, rate.config) < distance(config, nearest->config)) {
      nearest = &rate;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  const double flops_per_position =
      step_flops(nearest->config) / static_cast<double>(positions_per_step(nearest->config));
  return 1e9 * step_flops(config) / (flops_per_position * nearest->positions_per_s);
}

BatchPlan plan_batch(const RunConfig& config, std::int64_t memory_bytes, bool holds_checkpoint,
                     const std::vector<MeasuredRate>& rates) {
  if (config.accumulation_holds != AccumulationHolds::kGlobalBatch) {
    throw ConfigError("accumulation_holds=micro_batch: a plan holds the global batch");
  }
  if (config.global_batch_size % config.world_size != 0) {
    throw ConfigError(fmt::format("global_batch={}: takes a multiple of the {} ranks",
                                  config.global_batch_size, config.world_size));
  }
  BatchPlan plan{.memory_bytes = memory_bytes};
  const std::int64_t rows = config.global_batch_size / config.world_size;
  for (std::int64_t micro = rows; micro >= 1; --micro) {
    if (rows % micro != 0) continue;
    for (const Checkpoint checkpoint : {Checkpoint::kOff, Checkpoint::kFull}) {
      if (holds_checkpoint && checkpoint != config.checkpoint) continue;
      BatchChoice choice{.config = config};
      choice.config.num_accumulation = rows / micro;
      choice.config.checkpoint = checkpoint;
      choice.memory = predict_memory(choice.config);
      choice.fits = choice.memory.needed_bytes() <= memory_bytes;
      choice.step_ns = predict_step_ns(choice.config, rates);
      plan.choices.push_back(std::move(choice));
    }
  }
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    if (!plan.choices[i].fits) continue;
    if (!plan.best || is_better(plan.choices[i], plan.choices[*plan.best])) plan.best = i;
  }
  return plan;
}

nlohmann::json to_json(const BatchPlan& plan) {
  nlohmann::json choices = nlohmann::json::array();
  for (const BatchChoice& choice : plan.choices) {
    choices.push_back(
        {{"micro_batch", micro_batch_size(choice.config)},
         {"accumulation", choice.config.num_accumulation},
         {"checkpoint", name_of(choice.config.checkpoint)},
         {"fits", choice.fits},
         {"step_ns", choice.step_ns ? nlohmann::json(*choice.step_ns) : nlohmann::json(nullptr)},
         {"memory", to_json(choice.memory)}});
  }
  return {{"memory_bytes", plan.memory_bytes},
          {"best", plan.best ? nlohmann::json(*plan.best) : nlohmann::json(nullptr)},
          {"choices", std::move(choices)}};
}

}  // namespace steplens
