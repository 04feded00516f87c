#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::CliResult;
using testing_support::CliWorld;

std::string published(const std::string& name) {
  return std::string(STEPLENS_SOURCE_DIR) + "/reports/published/" + name;
}

TEST(PlanVerb, PredictsThePeaksOfEveryPublishedArm) {
  CliWorld world;
  for (const char* bundle : {"h200-gpt2-124m",
                             "h200-gpt2-124m-toggles",
                             "h200-gpt2-124m-beside-torch",
                             "h200-gpt2-124m-reproduced",
                             "h200-aa20-graph",
                             "h200-reducer",
                             "h200-tracing-graph",
                             "h200x2-gpt2-124m",
                             "h200-gpt2-124m-frameworks",
                             "h200-gpt2-124m-max-autotune",
                             "h200-gpt2-124m-220-steps",
                             "h200-gpt2-124m-planned",
                             "h200-gpt2-124m-pairs",
                             "h200-llama-1b-frameworks",
                             "h200x2-gpt2-124m-frameworks",
                             "h200x2-llama-1b",
                             "h200-gpt2-124m-switches",
                             "h200-llama-1b-switches",
                             "h200-gpt2-124m-recipe/01-precision",
                             "h200-gpt2-124m-recipe/02-attention",
                             "h200-gpt2-124m-recipe/03-accumulation",
                             "h200-gpt2-124m-recipe/15-without-compile",
                             "h200-gpt2-124m-recipe/leave-one-out"}) {
    const CliResult result = world.run({"plan", "--check", published(bundle), "--json"});
    ASSERT_EQ(result.exit_code, 0) << bundle << ": " << result.out << result.err;
    for (const nlohmann::json& arm : nlohmann::json::parse(result.out)) {
      EXPECT_NEAR(arm["error_ratio"].get<double>(), 1, 0.012) << bundle << " " << arm["arm"];
    }
  }
}

TEST(PlanVerb, NamesTheMicroBatchAndPredictsItsStep) {
  CliWorld world;
  const CliResult result = world.run({"plan", "--memory", "80GiB", "--global-batch", "512",
                                      "--from", published("h200-gpt2-124m"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json plan = nlohmann::json::parse(result.out);
  const nlohmann::json& best = plan["choices"][plan["best"].get<std::size_t>()];
  EXPECT_EQ(best["micro_batch"].get<int>() * best["accumulation"].get<int>(), 512);
  EXPECT_EQ(best["checkpoint"], "off");
  // 524,288 positions at the 300,600 a second that the baseline of that bundle reached.
  EXPECT_NEAR(best["step_ns"].get<double>() / 1e9, 524'288 / 300'600.0, 0.02);
}

// The command repeats what was planned, settings of an arm and of --set too.
TEST(PlanVerb, PlansForTheSettingsOfAnArm) {
  CliWorld world;
  const std::vector<std::string> words = {"plan",
                                          "--memory",
                                          "80GiB",
                                          "--global-batch",
                                          "512",
                                          "--from",
                                          published("h200-gpt2-124m-frameworks"),
                                          "--arm",
                                          "best"};
  const CliResult result = world.run(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("* global 512 = micro 128 x accumulation 4"));
  const std::string command = result.out.substr(result.out.find("Run: "));
  for (const char* setting :
       {"--model gpt2-124m", "global_batch=512", "accumulation=4", "attention=cudnn", "norm=fused",
        "weights=bf16_master", "optimizer=multi_tensor", "gemm=tuned", "graph=on"}) {
    EXPECT_THAT(command, HasSubstr(setting));
  }
  EXPECT_THAT(command, Not(HasSubstr("precision="))) << "the model's own";
  EXPECT_THAT(command, Not(HasSubstr("dataset="))) << "--data says";
  // 512 rows of 1,024 positions at the 620,200 positions a second of that arm.
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const nlohmann::json plan = nlohmann::json::parse(world.run(as_json).out);
  EXPECT_NEAR(plan["choices"][plan["best"].get<std::size_t>()]["step_ns"].get<double>() / 1e9,
              524'288 / 620'200.0, 0.001);
  std::vector<std::string> changed = words;
  changed.insert(changed.end(), {"--set", "graph=off"});
  EXPECT_THAT(world.run(changed).out, Not(HasSubstr("graph=on")));

  std::vector<std::string> accumulated = words;
  accumulated.insert(accumulated.end(), {"--set", "accumulation=4"});
  EXPECT_THAT(world.run(accumulated).err, HasSubstr("accumulation is what a plan finds"));

  EXPECT_THAT(world.run({"plan", "--memory", "1GiB", "--arm", "best"}).err, HasSubstr("--from"));
  std::vector<std::string> unknown = words;
  unknown.back() = "torch-compile";
  EXPECT_THAT(world.run(unknown).err, HasSubstr("arm=torch-compile: is no arm of"));
  std::vector<std::string> twice = words;
  twice.insert(twice.end(), {"--model", "nano"});
  EXPECT_THAT(world.run(twice).err, HasSubstr("leave out --model"));
}

TEST(PlanVerb, SaysWhatNothingFitsInto) {
  CliWorld world;
  const CliResult result = world.run({"plan", "--memory", "1GiB"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("Nothing fits into 1.00 GiB"));
}

TEST(PlanVerb, NamesBadInput) {
  CliWorld world;
  EXPECT_THAT(world.run({"plan"}).err, HasSubstr("--memory 80GiB"));
  EXPECT_THAT(world.run({"plan", "--memory", "lots"}).err, HasSubstr("memory=lots"));
  EXPECT_THAT(world.run({"plan", "--memory", "80GiB", "--set", "accumulation=4"}).err,
              HasSubstr("accumulation is what a plan finds"));
  EXPECT_EQ(world.run({"plan", "--check", "nowhere"}).exit_code, 2);
  // Packages alone: their peaks were measured, and nothing predicts them.
  EXPECT_THAT(world.run({"plan", "--check", published("h200-gpt2-124m-recipe/14-graph")}).err,
              HasSubstr("none of its arms is one that can be predicted"));
}

}  // namespace
}  // namespace steplens
