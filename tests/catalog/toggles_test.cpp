#include "workloads/catalog/toggles.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "harness/models.h"

namespace steplens {
namespace {

TEST(WhyNot, DropoutNeedsOneRankAndATypeThatItsKernelsTake) {
  RunConfig config = baseline_config(Device::kCuda, "gpt2-124m-dropout");
  EXPECT_EQ(config.dropout, 0.1);
  EXPECT_EQ(why_not(config), "");
  RunConfig ranks = config;
  ranks.world_size = 2;
  EXPECT_NE(why_not(ranks).find("dropout runs on one rank"), std::string_view::npos);
  RunConfig half = config;
  half.precision = Precision::kFp16;
  EXPECT_NE(why_not(half).find("dropout takes fp32 and bf16"), std::string_view::npos);
  EXPECT_EQ(baseline_config(Device::kCuda, "gpt2-124m").dropout, 0);
}

TEST(AllToggles, HaveUniqueNamesAndAtLeastTwoLevels) {
  std::set<std::string_view> names;
  for (const Toggle& toggle : all_toggles()) {
    EXPECT_TRUE(names.insert(toggle.name).second) << toggle.name;
    EXPECT_FALSE(toggle.summary.empty()) << toggle.name;
    std::set<std::string_view> levels;
    for (const Level& level : toggle.levels) {
      EXPECT_TRUE(levels.insert(level.name).second) << toggle.name << "=" << level.name;
    }
    EXPECT_GE(levels.size(), 2u) << toggle.name;
  }
}

TEST(AllToggles, EachLevelEditsItsOneKeyAndNothingElse) {
  for (const Toggle& toggle : all_toggles()) {
    ASSERT_NE(find_config_field(toggle.key), nullptr) << toggle.name;
    for (const Level& level : toggle.levels) {
      for (const Device device : {Device::kCpu, Device::kCuda}) {
        const RunConfig before = baseline_config(device, "nano");
        RunConfig after = before;
        level.apply(after);
        const std::vector<std::string> changed = differing_fields(before, after);
        if (level.name == current_level(toggle, before)) {
          EXPECT_TRUE(changed.empty()) << toggle.name << "=" << level.name;
        } else {
          EXPECT_EQ(changed, std::vector<std::string>{std::string(toggle.key)})
              << toggle.name << "=" << level.name;
        }
        EXPECT_EQ(current_level(toggle, after), level.name);
      }
    }
  }
}

TEST(AllToggles, EveryRuleOfEvidenceNamesALevelAndEveryCudaLevelHasOne) {
  for (const Toggle& toggle : all_toggles()) {
    for (const EvidenceRule& rule : toggle.evidence) {
      EXPECT_NE(find_level(toggle, rule.level), nullptr) << toggle.name << " " << rule.level;
      EXPECT_FALSE(rule.counter.empty());
    }
    const RunConfig baseline = baseline_config(Device::kCuda, "gpt2-124m");
    for (const Level& level : toggle.levels) {
      if (level.name == current_level(toggle, baseline)) continue;
      bool has_rule = false;
      for (const EvidenceRule& rule : toggle.evidence) {
        has_rule |= rule.level == level.name && rule.device == Device::kCuda;
      }
      EXPECT_TRUE(has_rule) << toggle.name << "=" << level.name << " cannot be proven";
    }
  }
}

std::vector<std::string> counters_in_sight(std::string_view toggle, std::string_view level,
                                           const RunConfig& config, const RunConfig& reference) {
  std::vector<std::string> counters;
  for (const EvidenceRule& rule : find_toggle(all_toggles(), toggle)->evidence) {
    if (rule.level == level && rule.device == config.device &&
        is_in_sight(rule, config, reference)) {
      counters.emplace_back(rule.counter);
    }
  }
  return counters;
}

TEST(AllToggles, EveryLevelThatAPackageRunsHasEvidenceInsideIt) {
  for (const Device device : {Device::kCpu, Device::kCuda}) {
    RunConfig compiled = baseline_config(device, device == Device::kCpu ? "nano" : "gpt2-124m");
    compiled.compile = Compile::kAoti;
    compiled.precision = device == Device::kCpu ? Precision::kFp32 : Precision::kBf16;
    int num_levels = 0;
    for (const Toggle& toggle : all_toggles()) {
      for (const Level& level : toggle.levels) {
        RunConfig config = compiled;
        level.apply(config);
        if (config == compiled || config.compile == Compile::kOff) continue;
        if (level.why_not != nullptr && !level.why_not(config).empty()) continue;
        if (!why_not(config).empty()) continue;
        const bool has_rules = std::ranges::any_of(toggle.evidence, [&](const EvidenceRule& rule) {
          return rule.level == level.name && rule.device == device;
        });
        if (!has_rules) continue;  // Not proven in an eager step either.
        ++num_levels;
        EXPECT_FALSE(counters_in_sight(toggle.name, level.name, config, compiled).empty())
            << toggle.name << "=" << level.name;
      }
    }
    EXPECT_GT(num_levels, 5);
  }
}

// In an eager step and in a captured one.
TEST(AllToggles, WhatAPackageClaimsOnAGpuIsInPublishedPilots) {
  const std::filesystem::path published = STEPLENS_SOURCE_DIR "/reports/published";
  int num_eager = 0;
  int num_captured = 0;
  const std::filesystem::path step = published / "h200-gpt2-124m-recipe" / "14-graph";
  for (const auto& entry : std::filesystem::directory_iterator(step / "blocks")) {
    const nlohmann::json block = read_json(entry.path() / "block.json");
    if (block["kind"] != "pilot" || block["config"]["compile"] != "aoti") continue;
    ++(block["config"]["graph"] == "on" ? num_captured : num_eager);
    const nlohmann::json& counters = block["evidence"]["counters"];
    EXPECT_GT(counters["package_runs"], 0);
    EXPECT_EQ(block["config"]["attention"], "cudnn");
    EXPECT_EQ(counters["package_attention_cudnn"], 1);
    EXPECT_EQ(counters["package_precision_bf16"], 1);
    EXPECT_GT(counters["aten::_cudnn_attention_forward"], 0) << "seen in a package";
    EXPECT_FALSE(counters.contains("aten::_scaled_dot_product_cudnn_attention")) << "not seen";
    EXPECT_FALSE(counters.contains("aten::silu")) << "claimed absent by compile=aoti";
    EXPECT_FALSE(counters.contains("aten::mm"));
  }
  EXPECT_EQ(num_eager, 1) << "the reference of graph=on in the recipe";
  EXPECT_EQ(num_captured, 1) << "graph=on there";
}

// In a package no operator is counted: what is compared with one compares with nothing.
TEST(AllToggles, WhatAPackageHidesIsNotClaimedOfIt) {
  using ::testing::Contains;
  using ::testing::Not;
  RunConfig eager = baseline_config(Device::kCuda, "gpt2-124m");
  eager.precision = Precision::kBf16;
  RunConfig compiled = eager;
  compiled.compile = Compile::kAoti;
  RunConfig fused = eager;
  fused.rope = Operators::kFused;
  EXPECT_THAT(counters_in_sight("rope", "fused", fused, eager), Contains("aten::cat"));
  EXPECT_THAT(counters_in_sight("rope", "fused", fused, compiled),
              testing::ElementsAre("fused_ropes", "trace.rope_fused"));
  EXPECT_THAT(counters_in_sight("weights", "bf16_master", eager, compiled),
              testing::ElementsAre("bf16_parameters"));
  EXPECT_THAT(counters_in_sight("gemm", "tuned", eager, compiled),
              testing::ElementsAre("tuned_gemms"));
  EXPECT_THAT(
      counters_in_sight("attention", "math", compiled, compiled),
      testing::AllOf(Contains("package_attention_math"), Contains("aten::_cudnn_attention_forward"),
                     Not(Contains("aten::_scaled_dot_product_attention_math"))));
  EXPECT_THAT(counters_in_sight("attention", "math", eager, compiled),
              Contains("aten::_scaled_dot_product_attention_math"))
      << "a claim about the arm alone needs no sight of the reference";
}

TEST(AllToggles, LevelsForAGpuOrSeveralRanksSayWhyNotOnOneCpu) {
  const RunConfig cpu = baseline_config(Device::kCpu, "nano");
  const std::set<std::string> elsewhere = {"attention=mem_efficient",
                                           "attention=cudnn",
                                           "graph=on",
                                           "optimizer=multi_tensor",
                                           "weights=bf16_master",
                                           "norm=fused",
                                           "rope=fused",
                                           "mlp=fused",
                                           "loss=fused",
                                           "loss_rows=2048",
                                           "loss_rows=4096",
                                           "loss_rows=16384",
                                           "loss_rows=32768",
                                           "loss_rows=all",
                                           "embedding=fused",
                                           "residual=fused",
                                           "gemm=tuned",
                                           "precision=tf32",
                                           "precision=bf16",
                                           "precision=fp16",
                                           "data=pinned",
                                           "allocator=expandable_segments",
                                           "no_sync=on",
                                           "bucket_mb=1",
                                           "bucket_mb=5",
                                           "bucket_mb=100",
                                           "comm_dtype=bf16",
                                           "comm_dtype=fp16",
                                           "overlap=off",
                                           "tracing=null",
                                           "tracing=full"};
  for (const Toggle& toggle : all_toggles()) {
    for (const Level& level : toggle.levels) {
      const std::string name = std::string(toggle.name) + "=" + std::string(level.name);
      const bool is_refused = level.why_not != nullptr && !level.why_not(cpu).empty();
      if (toggle.name == "accumulation") continue;  // Depends on the batch, tested below.
      EXPECT_EQ(is_refused, elsewhere.contains(name)) << name;
    }
  }
}

TEST(WhyNot, LetsRanksDoWhatOneCannot) {
  RunConfig config = baseline_config(Device::kCpu, "nano");
  config.global_batch_size = 8;
  config.world_size = 2;
  config.comm_dtype = CommDtype::kBf16;
  config.overlap = false;
  EXPECT_EQ(why_not(config), "");
  config.reducer = ReducerUse::kAlways;
  EXPECT_NE(why_not(config), "") << "several ranks use it anyhow";
  config.world_size = 1;
  EXPECT_NE(why_not(config), "") << "one rank sends nothing, in whatever type";
  config.comm_dtype = CommDtype::kFp32;
  config.overlap = true;
  EXPECT_EQ(why_not(config), "");
}

TEST(WhyNot, RefusesAccumulationThatDoesNotDivideTheBatch) {
  RunConfig config = baseline_config(Device::kCpu, "nano");
  config.global_batch_size = 6;
  config.num_accumulation = 2;
  EXPECT_EQ(why_not(config), "");
  config.num_accumulation = 4;
  EXPECT_NE(why_not(config), "");
  config.accumulation_holds = AccumulationHolds::kMicroBatch;
  EXPECT_EQ(why_not(config), "");
}

TEST(WhyNot, RefusesNoSyncWithOneRankOrOneMicroStep) {
  RunConfig config = baseline_config(Device::kCpu, "nano");
  config.no_sync = true;
  config.num_accumulation = 2;
  EXPECT_NE(why_not(config).find("one rank"), std::string_view::npos);
  config.world_size = 2;
  EXPECT_EQ(why_not(config), "");
  config.num_accumulation = 1;
  EXPECT_NE(why_not(config).find("one micro-step"), std::string_view::npos);
}

TEST(WhyNot, RefusesWhatAGraphCannotHold) {
  RunConfig config = baseline_config(Device::kCuda, "gpt2-124m");
  config.graph = true;
  EXPECT_EQ(why_not(config), "");
  config.optimizer = Optimizer::kLoop;
  EXPECT_NE(why_not(config), "");
  config.optimizer = Optimizer::kFused;
  config.sync_every_micro_step = true;
  EXPECT_NE(why_not(config), "");
  config.sync_every_micro_step = false;
  config.batching = Batching::kPadded;
  EXPECT_NE(why_not(config), "");
  config.batching = Batching::kPacked;
  config.precision = Precision::kFp16;
  EXPECT_EQ(why_not(config), "");
  config.optimizer = Optimizer::kForeach;
  EXPECT_NE(why_not(config), "") << "fp16 without the fused optimizer reads the overflow flag";
}

TEST(WhyNot, ChunksOfTheLossNeedLogitsInChunks) {
  RunConfig config = baseline_config(Device::kCuda, "gpt2-124m");
  config.num_loss_rows = 4096;
  EXPECT_NE(why_not(config).find("set loss=fused"), std::string_view::npos);
  config.num_loss_rows = 0;
  EXPECT_EQ(why_not(config), "") << "so the fastest step can be asked what its loss is worth";
  config.loss = Operators::kFused;
  config.num_loss_rows = 4096;
  EXPECT_EQ(why_not(config), "");
  RunConfig cpu = baseline_config(Device::kCpu, "nano");
  cpu.num_loss_rows = 4096;
  EXPECT_NE(why_not(cpu).find("CUDA"), std::string_view::npos) << "loss=fused would not help";
}

TEST(WhyNot, KeepsOurKernelsOutOfACompiledPackage) {
  RunConfig config = baseline_config(Device::kCuda, "gpt2-124m");
  config.compile = Compile::kAoti;
  config.optimizer = Optimizer::kMultiTensor;
  EXPECT_EQ(why_not(config), "");
  for (Operators RunConfig::* const part :
       {&RunConfig::norm, &RunConfig::rope, &RunConfig::mlp, &RunConfig::loss,
        &RunConfig::embedding, &RunConfig::residual}) {
    config.*part = Operators::kFused;
    EXPECT_NE(why_not(config).find("compile=aoti"), std::string_view::npos);
    config.*part = Operators::kAten;
  }
  config.gemm = Gemm::kTuned;
  EXPECT_NE(why_not(config).find("gemm=heuristic"), std::string_view::npos);
  config.gemm = Gemm::kHeuristic;
  config.num_loss_rows = 0;
  EXPECT_NE(why_not(config).find("loss_rows=8192"), std::string_view::npos);
  config.num_loss_rows = 8192;
  config.weights = Weights::kBf16Master;
  EXPECT_NE(why_not(config).find("fp32 weights"), std::string_view::npos);
  config.compile = Compile::kOff;
  EXPECT_EQ(why_not(config), "");
  config.precision = Precision::kTf32;
  EXPECT_NE(why_not(config).find("precision=bf16"), std::string_view::npos);
}

TEST(WhyNot, FusedOperatorsTakeBf16AndFp32) {
  RunConfig config = baseline_config(Device::kCuda, "gpt2-124m");
  config.loss = Operators::kFused;
  config.graph = true;
  config.checkpoint = Checkpoint::kFull;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    config.precision = precision;
    config.optimizer = Optimizer::kMultiTensor;
    EXPECT_EQ(why_not(config).empty(), precision == Precision::kBf16) << name_of(precision);
  }
}

TEST(AllModels, WarmUpAsSlowlyAsTheirWidthNeeds) {
  EXPECT_EQ(baseline_config(Device::kCuda, "gpt2-124m").num_lr_warmup_steps, 100);
  // Llama 2, section 2.2.
  for (const char* name : {"llama-1b", "llama-8b"}) {
    const RunConfig config = baseline_config(Device::kCuda, name);
    EXPECT_EQ(config.num_lr_warmup_steps, 2000) << name;
    EXPECT_GT(config.num_lr_total_steps, config.num_lr_warmup_steps) << name;
  }
}

TEST(AllModels, HaveTheParametersOfTheirNames) {
  // 162.2 M and 1,364.2 M parameters: the models of the published figures.
  EXPECT_EQ(num_parameters(baseline_config(Device::kCuda, "gpt2-124m").shape), 162'220'800);
  EXPECT_NEAR(static_cast<double>(num_parameters(baseline_config(Device::kCuda, "llama-1b").shape)),
              1364.2e6, 0.15e6);
  EXPECT_NEAR(static_cast<double>(num_parameters(baseline_config(Device::kCuda, "llama-8b").shape)),
              8.03e9, 0.01e9);
  for (const ModelPreset& model : all_models()) {
    EXPECT_NO_THROW(validate(baseline_config(Device::kCuda, model.name))) << model.name;
  }
}

}  // namespace
}  // namespace steplens
