#include "workloads/dropout.h"

#include "tests/workloads/tiny_model.h"
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "workloads/attention.h"
#include "workloads/model.h"

namespace steplens {
namespace {

RunConfig dropout_config() {
  RunConfig config = tiny_config();
  config.dropout = 0.2;
  return config;
}

at::Tensor step(std::int64_t index) { return at::tensor({index}, at::kLong); }

double loss_of(const Model& model, const DeviceMicroBatch& batch) {
  return model.loss_sum(batch.tokens_BT, batch.targets_BT).item<double>();
}

TEST(DropOut, MultipliesValueAndGradientByOneMask) {
  const DropoutSite site = {.probability = 0.4, .seed = 3, .call_index = 2, .step_index = step(5)};
  const at::Tensor factor = drop_out(at::ones({7, 13}), site);
  const at::Tensor x = at::randn({7, 13}).requires_grad_(true);
  const at::Tensor dy = at::randn({7, 13});
  const at::Tensor y = drop_out(x, site);
  EXPECT_TRUE(y.equal(x * factor));
  y.backward(dy);
  EXPECT_TRUE(x.grad().equal(dy * factor));
  EXPECT_GT(factor.eq(0).sum().item<std::int64_t>(), 0);
  EXPECT_LT(factor.eq(0).sum().item<std::int64_t>(), 91);
}

TEST(DropOut, OfNothingIsTheTensorItself) {
  const at::Tensor x = at::randn({3});
  EXPECT_TRUE(drop_out(x, {}).is_same(x));
}

TEST(ModelDropout, DrawsAnewInEachStepAndPassAndTheSameFromTheSameSeed) {
  force_attention(Attention::kMath);
  RunConfig config = dropout_config();
  const DeviceMicroBatch batch = random_rows(config, {8, 5}, 3);
  Model model(config);
  model.begin_pass(step(0), 0);
  const double first = loss_of(model, batch);
  EXPECT_EQ(loss_of(model, batch), first);
  EXPECT_EQ(loss_of(Model(config), batch), first) << "step 0, pass 0 are the default";
  model.begin_pass(step(1), 0);
  EXPECT_NE(loss_of(model, batch), first);
  model.begin_pass(step(0), 1);
  EXPECT_NE(loss_of(model, batch), first);
  config.dropout = 0;
  EXPECT_NE(loss_of(Model(config), batch), first);
}

// Every mask replaced by its mean is the model without dropout: near it, the average of many steps
// is the loss without dropout, up to the loss's curvature.
TEST(ModelDropout, KeepsTheLossOnAverage) {
  force_attention(Attention::kMath);
  RunConfig config = dropout_config();
  config.dropout = 0.05;
  const DeviceMicroBatch batch = random_rows(config, {8, 8}, 3);
  Model model(config);
  double sum = 0;
  constexpr int kNumSteps = 200;
  for (int i = 0; i < kNumSteps; ++i) {
    model.begin_pass(step(i), 0);
    sum += loss_of(model, batch);
  }
  config.dropout = 0;
  EXPECT_NEAR(sum / kNumSteps / loss_of(Model(config), batch), 1, 2e-3);
}

TEST(ModelDropout, IsDrawnAgainWhereABlockIsRecomputed) {
  force_attention(Attention::kMath);
  RunConfig config = dropout_config();
  const DeviceMicroBatch batch = random_rows(config, {8, 5}, 3);
  Model plain(config);
  plain.begin_pass(step(4), 1);
  plain.loss_sum(batch.tokens_BT, batch.targets_BT).backward();
  config.checkpoint = Checkpoint::kFull;
  Model checkpointed(config);
  checkpointed.begin_pass(step(4), 1);
  checkpointed.loss_sum(batch.tokens_BT, batch.targets_BT).backward();
  for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
    const at::Tensor expected = plain.parameters()[i].value.grad();
    const at::Tensor actual = checkpointed.parameters()[i].value.grad();
    EXPECT_LE((actual - expected).norm().item<double>(), 1e-6 * expected.norm().item<double>())
        << plain.parameters()[i].name;
  }
}

TEST(TrainStepDropout, CountsStepsAndMicroBatches) {
  force_attention(Attention::kMath);
  RunConfig config = dropout_config();
  config.learning_rate = 0;  // The weights stay: what differs is the masks.
  config.num_accumulation = 2;
  const DeviceMicroBatch batch = random_rows(config, {8, 8}, 3);
  const DeviceStep device_step = {.micro_batches = {batch, batch},
                                  .num_loss_tokens = 2 * num_targets_of(batch)};
  TrainStep train_step(config, 2);
  train_step.run(device_step);
  train_step.run(device_step);
  Model model(config);
  const auto rows = train_step.log().rows(2);
  for (std::int64_t i = 0; i < 2; ++i) {
    double expected = 0;
    for (std::int64_t pass = 0; pass < 2; ++pass) {
      model.begin_pass(step(i), pass);
      expected += loss_of(model, batch) / static_cast<double>(device_step.num_loss_tokens);
    }
    EXPECT_NEAR(rows[static_cast<std::size_t>(i)][0] / expected, 1, 1e-6);
  }
  EXPECT_NE(rows[0][0], rows[1][0]);
}

}  // namespace
}  // namespace steplens
