// The package that scripts/arms/export_step.py makes, beside the eager step: loss and every
// gradient. Needs a Python that can compile; skipped with its reason where there is none.

#include "workloads/compiled/compiled_pass.h"

#include <cstdlib>

#include "tests/workloads/tiny_model.h"
#include "tests/workloads/words_file.h"
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/block.h"
#include "harness/bundle.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/process.h"
#include "harness/temporary_folder.h"
#include "reports/guards.h"
#include "reports/proof.h"
#include "workloads/attention.h"
#include "workloads/catalog/toggles.h"
#include "workloads/evidence.h"
#include "workloads/run_block.h"
#include "workloads/train_step.h"

namespace steplens {
namespace {

using ::testing::HasSubstr;

RunConfig compiled_config() {
  RunConfig config = tiny_config();
  config.attention = Attention::kMath;
  config.compile = Compile::kAoti;
  return config;
}

// One export serves all tests, each of which may be a process of its own, and later runs too: it
// takes a minute of one core.
class CompiledPassTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    ::setenv("STEPLENS_PACKAGES", STEPLENS_TEST_PACKAGES, 1);
    const BlockConfig block{.config = compiled_config(), .output_folder = folder_->path()};
    write_json_atomically(folder_->path() / "block_config.json", to_json(block));
    const ProcessResult process = run_process(
        {.command = {STEPLENS_TORCH_PYTHON, "-B",
                     STEPLENS_SOURCE_DIR "/scripts/arms/export_step.py"},
         .environment = {{"STEPLENS_BLOCK_CONFIG", folder_->path() / "block_config.json"}},
         .timeout_s = 900});
    const std::string last =
        process.last_lines.empty() ? process.why_not_started : process.last_lines.back();
    // Exit code 4: not available here.
    if (process.end == ProcessEnd::kNotStarted || process.exit_code == 4) {
      *why_skipped_ = last;
    } else {
      ASSERT_EQ(process.exit_code, 0) << last;
    }
    force_attention(Attention::kMath);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  void SetUp() override {
    if (!why_skipped_->empty()) GTEST_SKIP() << *why_skipped_;
  }

  static DeviceStep step_of(const RunConfig& config, std::uint64_t seed) {
    DeviceStep step;
    const DeviceMicroBatch rows = random_rows(config, {8, 8, 3, 7}, seed);
    const std::int64_t num_rows = 4 / config.num_accumulation;
    for (std::int64_t begin = 0; begin < 4; begin += num_rows) {
      step.micro_batches.push_back(rows_of(rows, begin, begin + num_rows));
    }
    step.num_loss_tokens = num_targets_of(rows);
    return step;
  }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline std::string* why_skipped_ = new std::string;
};

double relative_difference(const at::Tensor& value, const at::Tensor& reference) {
  const at::Tensor v = value.to(at::kDouble);
  const at::Tensor r = reference.to(at::kDouble);
  return ((v - r).norm() / r.norm()).item<double>();
}

TEST_F(CompiledPassTest, LossAndEveryGradientAreThoseOfTheEagerModel) {
  const RunConfig config = compiled_config();
  const Model eager(config);
  const Model model(config);
  const DeviceMicroBatch micro = random_rows(config, {8, 8, 3, 7}, 1);
  const at::Tensor sum = eager.loss_sum(micro.tokens_BT, micro.targets_BT);
  (sum * 0.125).backward();

  CompiledPass pass(config);
  const at::Tensor scale = at::full({}, 0.125);
  const at::Tensor compiled_sum = pass.run(model, micro.tokens_BT, micro.targets_BT, scale);
  EXPECT_LT(relative_difference(compiled_sum, sum.detach()), 1e-6);
  for (std::size_t i = 0; i < eager.parameters().size(); ++i) {
    const at::Tensor gradient = model.parameters()[i].value.grad();
    ASSERT_TRUE(gradient.defined()) << eager.parameters()[i].name;
    EXPECT_LT(relative_difference(gradient, eager.parameters()[i].value.grad()), 1e-5)
        << eager.parameters()[i].name;
  }
  // A second pass adds: the gradients of an accumulation.
  pass.run(model, micro.tokens_BT, micro.targets_BT, scale);
  EXPECT_LT(relative_difference(model.parameters().back().value.grad(),
                                2 * eager.parameters().back().value.grad()),
            1e-5);
}

TEST_F(CompiledPassTest, StepsTrainLikeEagerOnesWithFewerOperators) {
  RunConfig config = compiled_config();
  config.optimizer = Optimizer::kFused;
  RunConfig eager_config = config;
  eager_config.compile = Compile::kOff;
  TrainStep compiled(config, 12);
  TrainStep eager(eager_config, 12);
  const std::int64_t runs_before = event_counts()["package_runs"];
  std::int64_t num_operators[2] = {};
  for (std::uint64_t i = 0; i < 12; ++i) {
    const DeviceStep step = step_of(config, i);
    {
      const OperatorCounter counter;
      compiled.run(step);
      num_operators[0] += counter.counts()["operators"];
    }
    const OperatorCounter counter;
    eager.run(step);
    num_operators[1] += counter.counts()["operators"];
  }
  EXPECT_EQ(event_counts()["package_runs"] - runs_before, 12);
  EXPECT_LT(num_operators[0], num_operators[1] / 2);
  const auto rows = compiled.log().rows(12);
  const auto reference = eager.log().rows(12);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t column = 0; column < 3; ++column) {
      EXPECT_NEAR(rows[i][column] / reference[i][column], 1, 1e-4) << i << ", " << column;
    }
  }
}

class NoSampler final : public Sampler {
 public:
  void start() override {}
  nlohmann::json stop() override { return nlohmann::json::object(); }
};

TEST_F(CompiledPassTest, BlockIsProvenAndDoesTheSameWorkWithTheSameMaths) {
  const auto path = write_words_file(folder_->path());
  const auto run = [&](const RunConfig& config, BlockKind kind, const std::string& arm) {
    const BlockConfig block{.config = config,
                            .kind = kind,
                            .arm = arm,
                            .round_index = 0,
                            .num_warmup_steps = kind == BlockKind::kPilot ? 40 : 2,
                            .num_measured_steps = 6,
                            .data_path = path,
                            .output_folder = folder_->path()};
    NoSampler sampler;
    BlockRecord record = run_block(block, sampler);
    EXPECT_EQ(record.status, BlockStatus::kOk) << record.reason;
    return record;
  };
  RunConfig baseline = compiled_config();
  baseline.compile = Compile::kOff;
  const BlockRecord eager = run(baseline, BlockKind::kThroughput, "baseline");
  const BlockRecord compiled = run(compiled_config(), BlockKind::kThroughput, "compile=aoti");
  EXPECT_FALSE(eager.compile_ns);
  // Seconds of the export, which no step holds.
  ASSERT_GT(compiled.compile_ns.value_or(0), 1'000'000'000);
  EXPECT_LT(compiled.warmup.step_wall_ns[0], *compiled.compile_ns);
  EXPECT_TRUE(
      compiled.evidence["package"]["name"].get<std::string>().starts_with("L2-d16-B4-T8-fp32"));
  EXPECT_EQ(compiled.data_hash, eager.data_hash);
  EXPECT_EQ(compiled.weights_hash, eager.weights_hash);

  Arm arm{.name = "compile=aoti",
          .toggle = "compile",
          .level = "aoti",
          .reference = "baseline",
          .config = compiled_config()};
  for (const Toggle& toggle : all_toggles()) {
    if (toggle.name != "compile") continue;
    for (const EvidenceRule& rule : toggle.evidence) {
      if (rule.level == "aoti" && rule.device == Device::kCpu) {
        arm.proof_claims.push_back({std::string(rule.counter), rule.claim});
      }
    }
  }
  ASSERT_EQ(arm.proof_claims.size(), 2U);
  // Attention inside a package: no operator of it is counted.
  arm.proof_claims.push_back({"package_attention_math", Claim::kPresent});
  arm.proof_claims.push_back({"aten::_scaled_dot_product_attention_math", Claim::kAbsent});
  const Arm reference{.name = "baseline", .is_baseline = true, .config = baseline};
  Bundle bundle{.manifest = {.baseline = baseline, .arms = {reference, arm}}};
  for (const Arm& each : {reference, arm}) {
    bundle.blocks.push_back(run(each.config, BlockKind::kPilot, each.name));
    bundle.manifest.blocks.push_back(
        {.folder = each.name, .arm = each.name, .kind = BlockKind::kPilot});
  }
  const ProofResult proof = prove(bundle, arm);
  EXPECT_EQ(proof.proof, Proof::kProven) << proof.reason;
  const std::vector<BlockPair> pairs = {
      {.round_index = 0, .candidate = &compiled, .reference = &eager}};
  const MathsCheck maths = check_maths(arm, reference, pairs);
  EXPECT_TRUE(maths.failures.empty()) << maths.failures.front();
}

TEST_F(CompiledPassTest, ConfigWithoutPackageIsRefused) {
  RunConfig config = compiled_config();
  config.sequence_length = 16;
  EXPECT_THAT(CompiledPass::why_not(config), HasSubstr("T16-fp32-math-cpu"));
  EXPECT_THROW(CompiledPass{config}, ConfigError);
  config.compile = Compile::kOff;
  EXPECT_EQ(CompiledPass::why_not(config), "");
}

}  // namespace
}  // namespace steplens
