// The whole model with every fused operator against ATen's, step by step.

#include <cstdlib>

#include "tests/workloads/tiny_model.h"
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include "harness/models.h"
#include "harness/temporary_folder.h"
#include "reports/guards.h"
#include "workloads/attention.h"
#include "workloads/evidence.h"
#include "workloads/fused/rope_attention.h"
#include "workloads/step_executor.h"

namespace steplens {
namespace {

constexpr std::int64_t kNumSteps = 30;

// fp32 follows closely even where the loss falls steeply, from 5.8 to 0.2 in 30 steps. There bf16
// does not, whatever computes it: on an H200 (30 Nov 2026) the loss of the fused step lay 0.9 %
// from ATen's with flash or cuDNN attention and 3 % with math attention. So bf16 keeps the
// product's own schedule, under which arms are compared.
RunConfig nano(Precision precision) {
  RunConfig config = baseline_config(Device::kCuda, "nano");
  config.precision = precision;
  config.attention = precision == Precision::kBf16 ? Attention::kFlash : Attention::kMath;
  if (precision == Precision::kFp32) {
    config.learning_rate = 3e-3;
    config.num_lr_warmup_steps = 10;
  }
  return config;
}

RunConfig all_fused(RunConfig config) {
  config.norm = Operators::kFused;
  config.rope = Operators::kFused;
  config.mlp = Operators::kFused;
  config.loss = Operators::kFused;
  config.embedding = Operators::kFused;
  if (config.dropout == 0) config.residual = Operators::kFused;
  config.optimizer = Optimizer::kMultiTensor;
  config.gemm = Gemm::kTuned;
  return config;
}

// Unequal targets in two micro-batches, the same for every config.
std::vector<DeviceStep> make_steps(const RunConfig& config) {
  std::vector<DeviceStep> steps;
  for (std::int64_t i = 0; i < kNumSteps; ++i) {
    const auto length = config.sequence_length;
    DeviceStep step;
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{length, length - 3}, std::vector<std::int64_t>{5, length}}) {
      DeviceMicroBatch micro = random_rows(
          config, counts, 100 + static_cast<std::uint64_t>(2 * i) + step.micro_batches.size());
      step.num_loss_tokens += num_targets_of(micro);
      step.micro_batches.push_back({.tokens_BT = micro.tokens_BT.to(at::kCUDA),
                                    .targets_BT = micro.targets_BT.to(at::kCUDA)});
    }
    steps.push_back(step);
  }
  return steps;
}

BlockRecord run(const RunConfig& config) {
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool(false));
  force_attention(config.attention);
  const std::vector<DeviceStep> steps = make_steps(config);
  TrainStep train_step(config, kNumSteps);
  const std::unique_ptr<StepExecutor> executor = make_step_executor(config, train_step);
  for (const DeviceStep& step : steps) executor->run(step);
  BlockRecord record{.config = config};
  record.weights_hash = "initial";
  record.final_weights_hash = "final";
  for (const auto& row : train_step.log().rows(kNumSteps)) {
    record.steps.step_wall_ns.push_back(1);
    record.steps.loss.push_back(row[0]);
    record.steps.grad_norm.push_back(row[1]);
    record.steps.lr.push_back(row[2]);
  }
  for (const Parameter& parameter : train_step.model().parameters()) {
    EXPECT_TRUE(parameter.value.equal(parameter.master.to(parameter.value.scalar_type())))
        << parameter.name;
  }
  return record;
}

void expect_same_maths(const BlockRecord& candidate, const BlockRecord& reference,
                       const std::string& name) {
  const Arm arm{.name = name, .reference = "baseline", .config = candidate.config};
  const Arm baseline{.name = "baseline", .is_baseline = true, .config = reference.config};
  const std::vector<BlockPair> pairs = {
      {.round_index = 0, .candidate = &candidate, .reference = &reference}};
  const MathsCheck maths = check_maths(arm, baseline, pairs);
  EXPECT_TRUE(maths.failures.empty()) << name << ": " << maths.failures.front();
  EXPECT_LT(candidate.steps.loss.back(), candidate.steps.loss.front()) << name;
}

class FusedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    at::globalContext().lazyInitDevice(at::kCUDA);
    static const TemporaryFolder tables("steplens-gemm");  // The process opens its table once.
    ::setenv("STEPLENS_GEMM_TABLES", tables.path().c_str(), 1);
  }
};

TEST_F(FusedModel, FollowsAtenInFp32OneSwitchAtATimeAndAllTogether) {
  const RunConfig baseline = nano(Precision::kFp32);
  const BlockRecord reference = run(baseline);
  const auto check = [&](const char* name, auto change) {
    RunConfig config = baseline;
    change(config);
    expect_same_maths(run(config), reference, name);
  };
  check("norm", [](RunConfig& c) { c.norm = Operators::kFused; });
  check("rope", [](RunConfig& c) { c.rope = Operators::kFused; });
  check("mlp", [](RunConfig& c) { c.mlp = Operators::kFused; });
  check("loss", [](RunConfig& c) { c.loss = Operators::kFused; });
  check("embedding", [](RunConfig& c) { c.embedding = Operators::kFused; });
  check("residual", [](RunConfig& c) { c.residual = Operators::kFused; });
  check("residual and norm", [](RunConfig& c) { c.residual = c.norm = Operators::kFused; });
  check("optimizer", [](RunConfig& c) { c.optimizer = Optimizer::kMultiTensor; });
  check("gemm", [](RunConfig& c) { c.gemm = Gemm::kTuned; });
  check("all", [](RunConfig& c) { c = all_fused(c); });
  check("all, checkpoint", [](RunConfig& c) {
    c = all_fused(c);
    c.checkpoint = Checkpoint::kFull;
  });
  check("all, graph", [](RunConfig& c) {
    c = all_fused(c);
    c.graph = true;
  });
}

TEST_F(FusedModel, FollowsAtenInBf16WithBothKindsOfWeights) {
  const RunConfig baseline = nano(Precision::kBf16);
  const BlockRecord reference = run(baseline);
  expect_same_maths(run(all_fused(baseline)), reference, "all");
  RunConfig residual = baseline;
  residual.residual = Operators::kFused;
  expect_same_maths(run(residual), reference, "residual");
  RunConfig weights = baseline;
  weights.weights = Weights::kBf16Master;
  expect_same_maths(run(weights), reference, "weights");
  expect_same_maths(run(all_fused(weights)), reference, "all and weights");
  for (const Attention attention : {Attention::kCudnn, Attention::kMath}) {
    RunConfig config = all_fused(weights);
    config.attention = attention;
    config.graph = true;
    expect_same_maths(run(config), reference, std::string(name_of(attention)) + " in a graph");
  }
  RunConfig checkpoint = all_fused(weights);
  checkpoint.checkpoint = Checkpoint::kFull;
  expect_same_maths(run(checkpoint), reference, "checkpoint");
  checkpoint.attention = Attention::kCudnn;
  checkpoint.num_loss_rows = 100;
  expect_same_maths(run(checkpoint), reference, "checkpoint, cuDNN, small chunks of the loss");
}

// With as many heads of k and v as of q, which `nano` has not, attention's gradients go straight
// into the projection's.
TEST_F(FusedModel, FollowsAtenWithGradientsOfAttentionInPlace) {
  RunConfig baseline = nano(Precision::kBf16);
  baseline.attention = Attention::kCudnn;
  baseline.shape.num_kv_heads = baseline.shape.num_heads;
  RunConfig fused = all_fused(baseline);
  if (!takes_rope_attention(fused)) GTEST_SKIP() << "a build without cuDNN's frontend";
  const BlockRecord reference = run(baseline);
  const std::int64_t before = event_counts()["attention_gradients_in_place"];
  expect_same_maths(run(fused), reference, "eager");
  EXPECT_EQ(event_counts()["attention_gradients_in_place"] - before, 4 * 2 * kNumSteps)
      << "4 blocks, 2 micro-steps";
  fused.checkpoint = Checkpoint::kFull;
  expect_same_maths(run(fused), reference, "checkpoint");
  fused.checkpoint = Checkpoint::kOff;
  fused.graph = true;
  expect_same_maths(run(fused), reference, "graph");
}

TEST_F(FusedModel, DropsOutTheSameElementsAsAtensLevel) {
  RunConfig baseline = nano(Precision::kFp32);
  baseline.dropout = 0.1;
  const BlockRecord reference = run(baseline);
  const auto check = [&](const char* name, RunConfig config) {
    expect_same_maths(run(config), reference, name);
  };
  check("all", all_fused(baseline));
  RunConfig checkpoint = all_fused(baseline);
  checkpoint.checkpoint = Checkpoint::kFull;
  check("checkpoint", checkpoint);
  RunConfig graph = all_fused(baseline);
  graph.graph = true;
  check("graph", graph);
  // Other masks are other losses: the comparison can tell.
  RunConfig other = baseline;
  other.dropout = 0;
  const BlockRecord without = run(other);
  EXPECT_NE(without.steps.loss.back(), reference.steps.loss.back());
}

TEST_F(FusedModel, CountsWhatItLaunches) {
  RunConfig config = all_fused(nano(Precision::kBf16));
  config.weights = Weights::kBf16Master;
  const Counters before = event_counts();
  run(config);
  const Counters after = event_counts();
  const auto count = [&](const char* name) {
    const auto it = before.find(name);
    return after.at(name) - (it == before.end() ? 0 : it->second);
  };
  // 4 blocks, 2 micro-steps of which each goes forward and back; a chunk of the head each.
  const std::int64_t num_micro_steps = 2 * kNumSteps;
  EXPECT_EQ(count("fused_norms"), 2 * 9 * num_micro_steps);
  EXPECT_EQ(count("fused_ropes"), 2 * 4 * num_micro_steps);
  EXPECT_EQ(count("fused_mlps"), 2 * 4 * num_micro_steps);
  EXPECT_EQ(count("fused_residuals"), 2 * 4 * num_micro_steps);
  EXPECT_EQ(count("fused_losses"), num_micro_steps);
  EXPECT_EQ(count("fused_embedding_gradients"), num_micro_steps);
  // Four matrices a block and the head, each one product forward and two back.
  EXPECT_EQ(count("tuned_gemms"), 3 * (4 * 4 + 1) * num_micro_steps);
  EXPECT_EQ(count("multi_tensor_updates"), kNumSteps);
}

}  // namespace
}  // namespace steplens
