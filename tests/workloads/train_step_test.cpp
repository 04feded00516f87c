#include "workloads/train_step.h"

#include <cmath>

#include "tests/workloads/tiny_model.h"
#include <gtest/gtest.h>

#include "reports/guards.h"
#include "workloads/attention.h"
#include "workloads/catalog/lr_schedule.h"
#include "workloads/optimizer.h"

namespace steplens {
namespace {

enum class Fault {
  kNone,
  kNoClip,
  kNoWarmup,
  kBakedLearningRate,
  kMeanOfMeans,
  kLostMicroBatch,
  kDroppedShortGroup,
};

// One optimizer step's micro-batches, with the number of targets that each row has.
std::vector<DeviceStep> make_steps(const RunConfig& config, std::int64_t num_steps) {
  std::vector<DeviceStep> steps;
  for (std::int64_t i = 0; i < num_steps; ++i) {
    DeviceStep step;
    const auto seed = static_cast<std::uint64_t>(100 + i);
    const DeviceMicroBatch full = random_rows(config, {8, 8, 7, 8}, seed);
    const DeviceMicroBatch sparse = random_rows(config, {2, 1, 1, 1}, seed + 1000);
    step.micro_batches = {full, sparse};
    // Every fourth step is a short group: only its first micro-batch is there.
    if (i % 4 == 3) step.micro_batches.pop_back();
    for (const DeviceMicroBatch& micro : step.micro_batches) {
      step.num_loss_tokens += num_targets_of(micro);
    }
    steps.push_back(step);
  }
  return steps;
}

// A training loop written a second way: gradients of each micro-batch added by hand, clip and AdamW
// in plain double arithmetic on flat arrays. With a fault it does what broken loops do.
BlockRecord reference_run(const RunConfig& config, const std::vector<DeviceStep>& steps,
                          Fault fault) {
  const Model model(config);
  BlockRecord record{.config = config};
  record.weights_hash = "initial";
  record.final_weights_hash = "final";
  std::vector<std::vector<double>> exp_avg;
  std::vector<std::vector<double>> exp_avg_sq;
  for (const Parameter& parameter : model.parameters()) {
    exp_avg.emplace_back(static_cast<std::size_t>(parameter.value.numel()), 0.0);
    exp_avg_sq.emplace_back(static_cast<std::size_t>(parameter.value.numel()), 0.0);
  }
  std::int64_t num_updates = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<std::vector<double>> gradient;
    for (const Parameter& parameter : model.parameters()) {
      gradient.emplace_back(static_cast<std::size_t>(parameter.value.numel()), 0.0);
    }
    std::vector<DeviceMicroBatch> micro_batches = steps[i].micro_batches;
    if (fault == Fault::kLostMicroBatch && micro_batches.size() > 1) micro_batches.pop_back();
    double loss = 0;
    for (const DeviceMicroBatch& micro : micro_batches) {
      for (const Parameter& parameter : model.parameters()) {
        at::Tensor(parameter.value).mutable_grad().reset();
      }
      const at::Tensor sum = model.loss_sum(micro.tokens_BT, micro.targets_BT);
      sum.backward();
      const double weight = fault == Fault::kMeanOfMeans
                                ? 1.0 / static_cast<double>(num_targets_of(micro)) /
                                      static_cast<double>(micro_batches.size())
                                : 1.0 / static_cast<double>(steps[i].num_loss_tokens);
      loss += weight * sum.item<double>();
      for (std::size_t p = 0; p < gradient.size(); ++p) {
        const at::Tensor flat =
            model.parameters()[p].value.grad().to(at::kDouble).contiguous().reshape({-1});
        const double* values = flat.const_data_ptr<double>();
        for (std::size_t j = 0; j < gradient[p].size(); ++j) gradient[p][j] += weight * values[j];
      }
    }
    double square = 0;
    for (const auto& values : gradient) {
      for (const double value : values) square += value * value;
    }
    const double norm = std::sqrt(square);
    RunConfig schedule = config;
    if (fault == Fault::kNoWarmup) schedule.num_lr_warmup_steps = 0;
    const std::int64_t at_step =
        fault == Fault::kBakedLearningRate && i >= 2 ? 2 : static_cast<std::int64_t>(i);
    const double lr = learning_rate_at(schedule, at_step);
    record.steps.step_wall_ns.push_back(1);
    record.steps.loss.push_back(loss);
    record.steps.grad_norm.push_back(norm);
    // What a broken loop believes: the schedule that it should have followed.
    record.steps.lr.push_back(learning_rate_at(config, static_cast<std::int64_t>(i)));
    if (fault == Fault::kDroppedShortGroup && i % 4 == 3) continue;
    const double coefficient =
        fault == Fault::kNoClip ? 1.0 : std::min(1.0, config.max_grad_norm / (norm + 1e-6));
    ++num_updates;
    const double correction1 = 1 - std::pow(config.beta1, static_cast<double>(num_updates));
    const double correction2 = 1 - std::pow(config.beta2, static_cast<double>(num_updates));
    const c10::AutoGradMode no_grad(false);
    for (std::size_t p = 0; p < gradient.size(); ++p) {
      at::Tensor parameter = model.parameters()[p].value;
      const double decay = parameter.dim() >= 2 ? config.weight_decay : 0.0;
      float* values = parameter.mutable_data_ptr<float>();
      for (std::size_t j = 0; j < gradient[p].size(); ++j) {
        const double g = gradient[p][j] * coefficient;
        double& m = exp_avg[p][j];
        double& v = exp_avg_sq[p][j];
        m = config.beta1 * m + (1 - config.beta1) * g;
        v = config.beta2 * v + (1 - config.beta2) * g * g;
        const double update =
            m / correction1 / (std::sqrt(v / correction2) + config.epsilon) + decay * values[j];
        values[j] = static_cast<float>(values[j] - lr * update);
      }
    }
  }
  return record;
}

BlockRecord product_run(const RunConfig& config, const std::vector<DeviceStep>& steps) {
  TrainStep train_step(config, static_cast<std::int64_t>(steps.size()));
  for (const DeviceStep& step : steps) train_step.run(step);
  BlockRecord record{.config = config};
  record.weights_hash = "initial";
  record.final_weights_hash = "final";
  for (const auto& row : train_step.log().rows(static_cast<std::int64_t>(steps.size()))) {
    record.steps.step_wall_ns.push_back(1);
    record.steps.loss.push_back(row[0]);
    record.steps.grad_norm.push_back(row[1]);
    record.steps.lr.push_back(row[2]);
  }
  return record;
}

// A clip that bites at the start only, and a learning rate that moves the loss: else no fault
// shows.
RunConfig faulty_world() {
  RunConfig config = tiny_config();
  config.max_grad_norm = 0.3;
  config.epsilon = 1e-2;  // AdamW forgets the gradient's scale otherwise, and with it the clip.
  return config;
}

MathsCheck check(const BlockRecord& candidate, const BlockRecord& reference) {
  const Arm arm{.name = "candidate", .reference = "baseline", .config = candidate.config};
  const Arm baseline{.name = "baseline", .is_baseline = true, .config = reference.config};
  const std::vector<BlockPair> pairs = {
      {.round_index = 0, .candidate = &candidate, .reference = &reference}};
  return check_maths(arm, baseline, pairs);
}

TEST(TrainStep, FollowsAnIndependentTrainingLoopForAllThreeOptimizers) {
  force_attention(Attention::kFlash);
  RunConfig config = faulty_world();
  const std::vector<DeviceStep> steps = make_steps(config, 40);
  const BlockRecord expected = reference_run(config, steps, Fault::kNone);
  EXPECT_LT(expected.steps.loss.back(), expected.steps.loss.front());
  for (const Optimizer optimizer : {Optimizer::kLoop, Optimizer::kForeach, Optimizer::kFused}) {
    config.optimizer = optimizer;
    const BlockRecord actual = product_run(config, steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(actual.steps.loss[i] / expected.steps.loss[i], 1, 1e-5)
          << name_of(optimizer) << " step " << i;
      EXPECT_NEAR(actual.steps.grad_norm[i] / expected.steps.grad_norm[i], 1, 1e-4)
          << name_of(optimizer) << " step " << i;
      EXPECT_NEAR(actual.steps.lr[i] / learning_rate_at(config, static_cast<std::int64_t>(i)), 1,
                  1e-6);
    }
    EXPECT_TRUE(check(actual, expected).failures.empty());
  }
}

TEST(TrainStep, PlantedFaultsAreCaughtByTheMathsGuard) {
  force_attention(Attention::kFlash);
  const RunConfig config = faulty_world();
  const std::vector<DeviceStep> steps = make_steps(config, 40);
  const BlockRecord right = product_run(config, steps);
  for (const Fault fault :
       {Fault::kNoClip, Fault::kNoWarmup, Fault::kBakedLearningRate, Fault::kMeanOfMeans,
        Fault::kLostMicroBatch, Fault::kDroppedShortGroup}) {
    const BlockRecord wrong = reference_run(config, steps, fault);
    EXPECT_FALSE(check(wrong, right).failures.empty()) << "fault " << static_cast<int>(fault);
    // Also by the wider tolerance of reduced precision.
    BlockRecord in_bf16 = wrong;
    in_bf16.config.precision = Precision::kBf16;
    EXPECT_FALSE(check(in_bf16, right).failures.empty()) << "fault " << static_cast<int>(fault);
  }
}

TEST(TrainStep, AccumulationEqualsOneLargeBatchWithUnequalTokenCounts) {
  force_attention(Attention::kFlash);
  const RunConfig config = tiny_config();
  std::vector<DeviceStep> whole;
  std::vector<DeviceStep> parts;
  for (std::uint64_t i = 0; i < 12; ++i) {
    // 8, 1, 5, 2 targets: a mean of micro-batch means is far from the mean over tokens.
    const DeviceMicroBatch batch = random_rows(config, {8, 1, 5, 2}, 40 + i);
    whole.push_back({.micro_batches = {batch}, .num_loss_tokens = 16});
    // Groups of 1, 2 and 1 rows.
    parts.push_back(
        {.micro_batches = {rows_of(batch, 0, 1), rows_of(batch, 1, 3), rows_of(batch, 3, 4)},
         .num_loss_tokens = 16});
  }
  const BlockRecord one = product_run(config, whole);
  const BlockRecord accumulated = product_run(config, parts);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(accumulated.steps.loss[i] / one.steps.loss[i], 1, 1e-4);
    EXPECT_NEAR(accumulated.steps.grad_norm[i] / one.steps.grad_norm[i], 1, 1e-4);
  }
}

TEST(TrainStep, FrozenEmbeddingsKeepTheirBitsAndTheRestTrains) {
  RunConfig config = tiny_config();
  config.frozen = Frozen::kEmbeddings;
  const std::vector<DeviceStep> steps = make_steps(config, 6);
  TrainStep train_step(config, 6);
  const at::Tensor embedding = train_step.model().parameters().front().value.clone();
  const at::Tensor head = train_step.model().parameters().back().value.detach().clone();
  for (const DeviceStep& step : steps) train_step.run(step);
  EXPECT_TRUE(train_step.model().parameters().front().value.equal(embedding));
  EXPECT_FALSE(train_step.model().parameters().back().value.equal(head));
}

TEST(ClipGradients, ScalesTheWholeGradientOnceToTheLimit) {
  const std::vector<double> first = {3, 0};
  const std::vector<double> second = {0, 4};
  const auto tensor = [](const std::vector<double>& values) {
    return at::from_blob(const_cast<double*>(values.data()), {2}, at::kDouble).to(at::kFloat);
  };
  const std::vector<at::Tensor> gradients = {tensor(first), tensor(second)};
  EXPECT_NEAR(clip_gradients(gradients, 1.0).item<double>(), 5, 1e-6);
  EXPECT_NEAR(gradients[0][0].item<double>(), 0.6, 1e-6);
  EXPECT_NEAR(gradients[1][1].item<double>(), 0.8, 1e-6);
  // Below the limit nothing changes.
  EXPECT_NEAR(clip_gradients(gradients, 10.0).item<double>(), 1, 1e-6);
  EXPECT_NEAR(gradients[0][0].item<double>(), 0.6, 1e-6);
}

}  // namespace
}  // namespace steplens
