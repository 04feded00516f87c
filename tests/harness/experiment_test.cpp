#include "harness/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

Experiment parse(const char* text) { return experiment_from_json(json::parse(text), "e.json"); }

TEST(ExperimentFromJson, ReadsTheWordsOfTheFlags) {
  const Experiment e = parse(R"({
    "model": "nano", "device": "cpu", "title": "first", "data": "x.bin",
    "set": {"sequence_length": 256, "precision": "fp32"},
    "toggles": {"attention": ["math", "cudnn"], "graph": null, "optimizer": "fused"},
    "grid": ["no_sync", "accumulation=2|4"],
    "rounds": 14, "seed": 18446744073709551615, "max_seconds": 90.5, "until_halfwidth": "0.2%",
    "equivalence": 1.02, "warmup": 10, "steps": 20})");
  EXPECT_EQ(e.model, "nano");
  EXPECT_EQ(e.device, "cpu");
  EXPECT_EQ(e.title, "first");
  EXPECT_EQ(e.data, "x.bin");
  EXPECT_THAT(e.settings, ElementsAre(Pair("precision", "fp32"), Pair("sequence_length", "256")));
  EXPECT_THAT(*e.toggles,
              ElementsAre(ToggleChoice{"attention", {"math", "cudnn"}}, ToggleChoice{"graph", {}},
                          ToggleChoice{"optimizer", {"fused"}}));
  EXPECT_THAT(*e.grid,
              ElementsAre(ToggleChoice{"no_sync", {}}, ToggleChoice{"accumulation", {"2", "4"}}));
  EXPECT_EQ(e.rounds, 14);
  EXPECT_EQ(e.seed, 18446744073709551615U);
  EXPECT_EQ(e.max_seconds, 90.5);
  EXPECT_EQ(e.until_halfwidth, 0.002);
  EXPECT_EQ(e.equivalence, 1.02);
  EXPECT_EQ(e.warmup, 10);
  EXPECT_EQ(e.steps, 20);
  EXPECT_FALSE(e.arms);
  EXPECT_FALSE(e.aa);
}

TEST(ExperimentFromJson, SaysWhichBlocksExplainAnArm) {
  const Experiment e =
      parse(R"({"trace_steps": 5, "graph_trace_steps": 2, "memory": false, "counters": true})");
  EXPECT_EQ(e.trace_steps, 5);
  EXPECT_EQ(e.graph_trace_steps, 2);
  EXPECT_EQ(e.memory, false);
  EXPECT_EQ(e.counters, true);
  EXPECT_TRUE(e.decides_plan());
  Experiment flags;
  flags.counters = false;
  flags.graph_trace_steps = 0;
  EXPECT_EQ(overlaid(e, flags).counters, false);
  EXPECT_EQ(overlaid(e, flags).graph_trace_steps, 0);
}

TEST(ExperimentFromJson, TakesTogglesAsTheFlagsText) {
  EXPECT_THAT(*parse(R"({"toggles": "attention=math,graph"})").toggles,
              ElementsAre(ToggleChoice{"attention", {"math"}}, ToggleChoice{"graph", {}}));
}

TEST(ExperimentFromJson, TakesArmsByNameAndAsOneToggle) {
  const Experiment e = parse(R"({"arms": ["baseline", "torch-eager", {"optimizer": "fused"}]})");
  EXPECT_THAT(*e.arms, ElementsAre(ExternalArmChoice{"torch-eager", {}}));
  EXPECT_THAT(*e.toggles, ElementsAre(ToggleChoice{"optimizer", {"fused"}}));
}

TEST(ExperimentFromJson, RefusesAnArmWithTwoKeys) {
  EXPECT_THAT([] { parse(R"({"arms": [{"optimizer": "fused", "attention": "math"}]})"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("two variables"), HasSubstr("--grid"))));
}

TEST(ExperimentFromJson, NamesTheNearestKey) {
  EXPECT_THAT(
      [] { parse(R"({"toogles": "graph"})"); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("e.json"), HasSubstr("did you mean toggles?"))));
}

TEST(ExperimentFromJson, RefusesWrongTypes) {
  for (const char* text :
       {"[]", R"({"rounds": "many"})", R"({"rounds": 1.5})", R"({"rounds": -1})", R"({"set": 3})",
        R"({"toggles": 3})", R"({"toggles": {"a": [1]}})", R"({"arms": {"a": "b"}})",
        R"({"arms": [3]})", R"({"model": 3})", R"({"until_halfwidth": "x"})"}) {
    EXPECT_THROW(parse(text), ConfigError) << text;
  }
}

TEST(Overlaid, LetsFlagsWin) {
  Experiment flags;
  flags.rounds = 20;
  flags.settings = {{"precision", "bf16"}};
  const Experiment e =
      overlaid(parse(R"({"rounds": 6, "seed": 5, "set": {"precision": "fp32"}})"), flags);
  EXPECT_EQ(e.rounds, 20);
  EXPECT_EQ(e.seed, 5U);
  EXPECT_THAT(e.settings, ElementsAre(Pair("precision", "fp32"), Pair("precision", "bf16")));
}

TEST(DecidesPlan, IsFalseForTheTimeLimitAndTheData) {
  Experiment e;
  EXPECT_FALSE(e.decides_plan());
  e.max_seconds = 60;
  e.data = "x.bin";
  EXPECT_FALSE(e.decides_plan());
  e.seed = 1;
  EXPECT_TRUE(e.decides_plan());
}

}  // namespace
}  // namespace steplens
