#include "tests/workloads/tiny_model.h"
#include <gtest/gtest.h>

#include "reports/guards.h"
#include "workloads/attention.h"
#include "workloads/optimizer.h"

namespace steplens {
namespace {

// The CPU multiplies bf16 slowly, but it does.
RunConfig bf16_config(Weights weights) {
  RunConfig config = tiny_config();
  config.precision = Precision::kBf16;
  config.weights = weights;
  return config;
}

BlockRecord run(const RunConfig& config, std::int64_t num_steps) {
  TrainStep train_step(config, num_steps);
  for (std::int64_t i = 0; i < num_steps; ++i) {
    const DeviceMicroBatch batch =
        random_rows(config, {8, 8, 7, 8}, 100 + static_cast<std::uint64_t>(i));
    train_step.run({.micro_batches = {batch, batch}, .num_loss_tokens = 62});
  }
  BlockRecord record{.config = config};
  record.weights_hash = "initial";
  record.final_weights_hash = "final";
  for (const auto& row : train_step.log().rows(num_steps)) {
    record.steps.step_wall_ns.push_back(1);
    record.steps.loss.push_back(row[0]);
    record.steps.grad_norm.push_back(row[1]);
    record.steps.lr.push_back(row[2]);
  }
  return record;
}

TEST(Bf16Weights, AreTheMastersRounded) {
  const RunConfig config = bf16_config(Weights::kBf16Master);
  const Model model(config);
  const Model fp32(bf16_config(Weights::kFp32));
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Parameter& parameter = model.parameters()[i];
    EXPECT_EQ(parameter.has_master(), parameter.value.dim() == 2) << parameter.name;
    EXPECT_EQ(parameter.master.scalar_type(), at::kFloat) << parameter.name;
    EXPECT_TRUE(parameter.master.equal(fp32.parameters()[i].value)) << parameter.name;
    EXPECT_TRUE(parameter.value.equal(parameter.master.to(parameter.value.scalar_type())));
  }
  EXPECT_EQ(model.weights_hash(), fp32.weights_hash()) << "arms begin alike";
}

TEST(Bf16Weights, StayTheMastersRoundedUnderEachOptimizer) {
  force_attention(Attention::kMath);
  for (const Optimizer optimizer : {Optimizer::kLoop, Optimizer::kForeach, Optimizer::kFused}) {
    RunConfig config = bf16_config(Weights::kBf16Master);
    config.optimizer = optimizer;
    TrainStep train_step(config, 3);
    const at::Tensor before = train_step.model().parameters()[2].master.clone();
    for (int i = 0; i < 3; ++i) {
      train_step.run(
          {.micro_batches = {random_rows(config, {8, 8, 8, 8}, 5)}, .num_loss_tokens = 32});
    }
    EXPECT_FALSE(before.equal(train_step.model().parameters()[2].master)) << name_of(optimizer);
    std::int64_t master_bytes = 0;
    for (const Parameter& parameter : train_step.model().parameters()) {
      EXPECT_TRUE(parameter.value.equal(parameter.master.to(parameter.value.scalar_type())))
          << name_of(optimizer) << " " << parameter.name;
      if (parameter.has_master())
        master_bytes += static_cast<std::int64_t>(parameter.master.nbytes());
    }
    // Two moments of all, the masters of the matrices; norms are fp32 and have none.
    std::int64_t state_bytes = 0;
    for (const at::Tensor& tensor : train_step.optimizer().state()) {
      if (tensor.numel() > 1) state_bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
    std::int64_t parameter_bytes = 0;
    for (const Parameter& parameter : train_step.model().parameters()) {
      parameter_bytes += static_cast<std::int64_t>(parameter.master.nbytes());
    }
    EXPECT_EQ(state_bytes, 2 * parameter_bytes + master_bytes) << name_of(optimizer);
  }
}

TEST(Bf16Weights, TrainWithinTheGuardOfFp32WeightsUnderAutocast) {
  force_attention(Attention::kMath);
  const BlockRecord reference = run(bf16_config(Weights::kFp32), 30);
  const BlockRecord candidate = run(bf16_config(Weights::kBf16Master), 30);
  EXPECT_LT(candidate.steps.loss.back(), 0.9 * candidate.steps.loss.front());
  EXPECT_NE(candidate.steps.loss, reference.steps.loss);
  const Arm arm{.name = "candidate", .reference = "baseline", .config = candidate.config};
  const Arm baseline{.name = "baseline", .is_baseline = true, .config = reference.config};
  const std::vector<BlockPair> pairs = {
      {.round_index = 0, .candidate = &candidate, .reference = &reference}};
  const MathsCheck maths = check_maths(arm, baseline, pairs);
  EXPECT_TRUE(maths.failures.empty()) << maths.failures.front();
}

}  // namespace
}  // namespace steplens
