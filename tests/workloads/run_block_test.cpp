#include "workloads/run_block.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "tests/workloads/tiny_model.h"
#include "tests/workloads/words_file.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/bundle.h"
#include "harness/error.h"
#include "reports/guards.h"
#include "reports/proof.h"
#include "workloads/catalog/lr_schedule.h"
#include "workloads/catalog/toggles.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

// Stands in for the machine's sampler: a block must start and stop it exactly once.
class CountingSampler final : public Sampler {
 public:
  void start() override { ++num_starts; }
  nlohmann::json stop() override { return {{"num_samples", num_starts}}; }
  int num_starts = 0;
};

class RunBlock : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("steplens-run-block-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = write_words_file(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  BlockConfig block(const RunConfig& config, BlockKind kind = BlockKind::kThroughput) const {
    return {.config = config,
            .seed = config.seed,
            .kind = kind,
            .arm = "arm",
            .round_index = 0,
            .num_warmup_steps = kind == BlockKind::kPilot ? 40 : 2,
            .num_measured_steps = 4,
            .data_path = path_,
            .output_folder = folder_};
  }
  BlockRecord run(const RunConfig& config, BlockKind kind = BlockKind::kThroughput) const {
    CountingSampler sampler;
    BlockRecord record = run_block(block(config, kind), sampler);
    EXPECT_LE(sampler.num_starts, 1);
    return record;
  }

  fs::path folder_;
  fs::path path_;
};

TEST_F(RunBlock, RecordsEveryStepAndAddsUp) {
  const RunConfig config = tiny_config();
  const BlockRecord record = run(config);
  ASSERT_EQ(record.status, BlockStatus::kOk) << record.reason;
  ASSERT_EQ(record.warmup.size(), 2u);
  ASSERT_EQ(record.steps.size(), 4u);
  std::int64_t sum_ns = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(record.steps.num_positions[i], 32);  // 4 rows of 8.
    EXPECT_EQ(record.steps.num_valid_tokens[i], 32);
    EXPECT_EQ(record.steps.num_loss_tokens[i], 32);
    EXPECT_TRUE(std::isfinite(record.steps.loss[i]));
    EXPECT_GT(record.steps.grad_norm[i], 0);
    EXPECT_NEAR(record.steps.lr[i], learning_rate_at(config, 2 + static_cast<std::int64_t>(i)),
                1e-9);
    sum_ns += record.steps.step_wall_ns[i];
  }
  EXPECT_NEAR(static_cast<double>(sum_ns) / static_cast<double>(record.measured_wall_ns), 1, 0.005);
  EXPECT_NEAR(record.warmup.loss[0], std::log(37.0), 0.1) << "near uniform at the start";
  EXPECT_TRUE(record.steps.step_gpu_ns.empty());
  EXPECT_GT(record.memory.at("peak_rss_bytes").get<std::int64_t>(), 50'000'000);
  // The record survives a round trip through its file format.
  const BlockRecord again =
      block_record_from_json(nlohmann::json::parse(to_json(record).dump()), "block.json");
  EXPECT_EQ(again.steps.loss, record.steps.loss);
  EXPECT_EQ(again.weights_hash, record.weights_hash);
}

TEST_F(RunBlock, APilotsLimitDoesNotCountItsFirstStep) {
  // The first step measures matrix products where that is asked for, a minute of it: the pilot must
  // run on into the steps that it is for.
  BlockConfig pilot = block(tiny_config(), BlockKind::kPilot);
  pilot.max_pilot_s = 1e-9;
  CountingSampler sampler;
  const BlockRecord record = run_block(pilot, sampler);
  ASSERT_EQ(record.status, BlockStatus::kOk) << record.reason;
  EXPECT_EQ(record.warmup.size() + record.steps.size(), 2U);
  EXPECT_FALSE(record.evidence.at("warmup_settled").get<bool>());
}

TEST_F(RunBlock, EveryLevelOfTheCpuIsProvenAndDoesTheSameWork) {
  RunConfig baseline = tiny_config();
  baseline.sequence_length = 64;  // Buckets are multiples of 16 positions.
  const BlockRecord reference = run(baseline);
  const BlockRecord reference_pilot = run(baseline, BlockKind::kPilot);
  int num_levels = 0;
  for (const Toggle& toggle : all_toggles()) {
    for (const Level& level : toggle.levels) {
      RunConfig config = baseline;
      level.apply(config);
      if (level.why_not != nullptr && !level.why_not(config).empty()) continue;
      if (!why_not(config).empty() || config == baseline || config.num_accumulation > 4) continue;
      if (config.compile == Compile::kAoti) continue;  // With a package: compiled_pass_test.cpp.
      ++num_levels;
      const std::string name = std::string(toggle.name) + "=" + std::string(level.name);
      const BlockRecord record = run(config);
      const BlockRecord pilot = run(config, BlockKind::kPilot);
      ASSERT_EQ(record.status, BlockStatus::kOk) << name << ": " << record.reason;
      ASSERT_EQ(pilot.status, BlockStatus::kOk) << name << ": " << pilot.reason;
      EXPECT_EQ(record.weights_hash, reference.weights_hash) << name;
      EXPECT_EQ(record.data_set_hash, reference.data_set_hash) << name;
      EXPECT_NE(record.final_weights_hash, record.weights_hash) << name;

      Arm arm{.name = name, .reference = "baseline", .config = config};
      arm.contract = contract_of(toggle, config);
      for (const EvidenceRule& rule : toggle.evidence) {
        if (rule.level == level.name && rule.device == Device::kCpu &&
            is_in_sight(rule, config, baseline)) {
          arm.proof_claims.push_back({std::string(rule.counter), rule.claim});
        }
      }
      ASSERT_FALSE(arm.proof_claims.empty()) << name << " has no evidence on a CPU";
      arm.toggle = toggle.name;
      arm.level = level.name;
      const Arm reference_arm{.name = "baseline", .is_baseline = true, .config = baseline};
      Bundle bundle{.manifest = {.baseline = baseline, .arms = {reference_arm, arm}}};
      for (const auto& [who, what] :
           {std::pair(&reference_pilot, "baseline"), std::pair(&pilot, name.c_str())}) {
        BlockRecord copy = *who;
        copy.arm = what;
        bundle.blocks.push_back(copy);
        bundle.manifest.blocks.push_back({.folder = what, .arm = what, .kind = BlockKind::kPilot});
      }
      const ProofResult result = prove(bundle, arm);
      EXPECT_EQ(result.proof, Proof::kProven) << name << ": " << result.reason << "\n"
                                              << pilot.evidence.dump();

      if (arm.contract == Contract::kSameMaths) {
        const std::vector<BlockPair> pairs = {
            {.round_index = 0, .candidate = &record, .reference = &reference}};
        const MathsCheck maths = check_maths(arm, reference_arm, pairs);
        EXPECT_TRUE(maths.failures.empty()) << name << ": " << maths.failures.front();
        EXPECT_EQ(record.data_hash, reference.data_hash) << name;
      } else {
        const auto total = [](const StepArrays& steps) {
          return std::accumulate(steps.num_valid_tokens.begin(), steps.num_valid_tokens.end(),
                                 std::int64_t{0});
        };
        EXPECT_EQ(total(record.steps), total(reference.steps)) << name;
      }
    }
  }
  EXPECT_GE(num_levels, 14);
}

TEST_F(RunBlock, EveryPairOfLevelsRunsOrSaysWhyNot) {
  const RunConfig baseline = tiny_config();
  // Two levels that are the baseline's own make the same config again.
  std::vector<RunConfig> seen;
  int num_run = 0;
  const auto toggles = all_toggles();
  for (std::size_t i = 0; i < toggles.size(); ++i) {
    for (std::size_t j = i + 1; j < toggles.size(); ++j) {
      for (const Level& first : toggles[i].levels) {
        for (const Level& second : toggles[j].levels) {
          RunConfig config = baseline;
          config.global_batch_size = 16;
          config.sequence_length = 4;
          first.apply(config);
          second.apply(config);
          config.injected_spin_ns = std::min<std::int64_t>(config.injected_spin_ns, 1000);
          if (std::ranges::find(seen, config) != seen.end()) continue;
          seen.push_back(config);
          const std::string_view reason = why_not(config);
          BlockConfig pair = block(config);
          pair.num_warmup_steps = 1;
          pair.num_measured_steps = 1;
          CountingSampler sampler;
          const BlockRecord record = run_block(pair, sampler);
          if (reason.empty() && config.compile == Compile::kAoti) {
            EXPECT_EQ(record.status, BlockStatus::kUnsupported);
            EXPECT_NE(record.reason.find("has not been exported"), std::string::npos);
          } else if (reason.empty()) {
            ASSERT_EQ(record.status, BlockStatus::kOk)
                << toggles[i].name << "=" << first.name << ", " << toggles[j].name << "="
                << second.name << ": " << record.reason;
            ++num_run;
          } else {
            EXPECT_EQ(record.status, BlockStatus::kUnsupported);
            EXPECT_EQ(record.reason, reason);
          }
        }
      }
    }
  }
  EXPECT_GT(num_run, 100);
}

TEST_F(RunBlock, ALossThatIsNotFiniteIsARowNotAResult) {
  RunConfig config = tiny_config();
  config.learning_rate = 1e30;
  config.num_lr_warmup_steps = 0;
  const BlockRecord record = run(config);
  EXPECT_EQ(record.status, BlockStatus::kNan);
  EXPECT_NE(record.reason.find("measured step"), std::string::npos) << record.reason;
}

TEST_F(RunBlock, BadInputIsRefusedByName) {
  CountingSampler sampler;
  RunConfig config = tiny_config();
  config.shape.vocab_size = 30;
  try {
    run_block(block(config), sampler);
    FAIL() << "a vocabulary smaller than a token was accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("36"), std::string::npos) << error.what();
  }
  config = tiny_config();
  config.sequence_length = 30'000;
  EXPECT_THROW(run_block(block(config), sampler), ConfigError);
  config = tiny_config();
  config.global_batch_size = 0;
  EXPECT_THROW(run_block(block(config), sampler), ConfigError);
}

TEST_F(RunBlock, AccumulationThatHoldsTheMicroBatchSeesTheSameTokensInFewerSteps) {
  RunConfig config = tiny_config();
  config.accumulation_holds = AccumulationHolds::kMicroBatch;
  const BlockRecord reference = run(config);
  config.num_accumulation = 2;
  BlockConfig halved = block(config);
  halved.num_warmup_steps = 1;
  halved.num_measured_steps = 2;
  CountingSampler sampler;
  const BlockRecord record = run_block(halved, sampler);
  ASSERT_EQ(record.status, BlockStatus::kOk) << record.reason;
  EXPECT_EQ(record.steps.num_valid_tokens, (std::vector<std::int64_t>{64, 64}));
  EXPECT_EQ(record.data_set_hash, reference.data_set_hash);
}

TEST_F(RunBlock, RecordsWhatTheDispatcherSaidAboutAttention) {
  const nlohmann::json attention = run(tiny_config()).evidence.at("attention");
  EXPECT_EQ(attention.at("wanted"), name_of(tiny_config().attention));
  EXPECT_EQ(attention.at("chosen"), attention.at("wanted"));
  EXPECT_TRUE(attention.at("why_not").is_null());
}

}  // namespace
}  // namespace steplens
