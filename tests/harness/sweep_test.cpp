#include "harness/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal_of(std::string_view text) {
  try {
    parse_sweep(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string setting(const Experiment& experiment, std::string_view key) {
  std::string value;
  for (const auto& [name, text] : experiment.settings) {
    if (name == key) value = text;  // Later ones win.
  }
  return value;
}

TEST(ParseSweep, TakesAKeyOrItsShortNameAndItsValues) {
  const Sweep sweep = parse_sweep("seq_len=512,1024,2048");
  EXPECT_EQ(sweep.key, "sequence_length");
  EXPECT_THAT(sweep.values, ElementsAre("512", "1024", "2048"));
  EXPECT_EQ(parse_sweep("num_layers=2,4").key, "num_layers");
}

TEST(ParseSweep, NamesWhatIsWrong) {
  EXPECT_THAT(refusal_of("512,1024"), HasSubstr("takes key=value,value"));
  EXPECT_THAT(refusal_of("sequence_lenght=1,2"), HasSubstr("sequence_length"));
  EXPECT_THAT(refusal_of("seq_len=512"), HasSubstr("two or more"));
  EXPECT_THAT(refusal_of("seq_len=512,,1024"), HasSubstr("empty value"));
  EXPECT_THAT(refusal_of("seq_len=512,512"), HasSubstr("twice"));
  EXPECT_THAT(refusal_of("seq_len=512,many"), HasSubstr("sequence_length=many"));
  EXPECT_THAT(refusal_of("model=nano,gpt2-124m"), HasSubstr("decides other keys"));
}

TEST(ExperimentAt, SetsTheKeyBehindAllOtherSettings) {
  Sweep sweep = parse_sweep("seq_len=256,512");
  sweep.experiment.settings = {{"sequence_length", "128"}, {"optimizer", "fused"}};
  const Experiment experiment = experiment_at(sweep, "512", RunConfig{});
  EXPECT_EQ(setting(experiment, "sequence_length"), "512");
  EXPECT_EQ(setting(experiment, "optimizer"), "fused");
  EXPECT_EQ(setting(experiment, "global_batch"), "") << "only the key changes";
}

// 32 rows of 512 are 16384 positions: 4 rows of 4096.
TEST(ExperimentAt, HoldsThePositionsOfTheFirstValue) {
  Sweep sweep = parse_sweep("seq_len=512,1024,4096");
  sweep.holds_positions = true;
  RunConfig baseline;
  baseline.global_batch_size = 32;
  EXPECT_EQ(setting(experiment_at(sweep, "512", baseline), "global_batch"), "32");
  EXPECT_EQ(setting(experiment_at(sweep, "1024", baseline), "global_batch"), "16");
  EXPECT_EQ(setting(experiment_at(sweep, "4096", baseline), "global_batch"), "4");
}

TEST(ExperimentAt, RefusesWhatCannotHoldPositions) {
  Sweep sweep = parse_sweep("seq_len=512,3000");
  sweep.holds_positions = true;
  EXPECT_THROW(experiment_at(sweep, "3000", RunConfig{}), ConfigError);
  Sweep layers = parse_sweep("num_layers=2,4");
  layers.holds_positions = true;
  EXPECT_THROW(experiment_at(layers, "2", RunConfig{}), ConfigError);
}

TEST(SweepJson, ComesBackAsItWas) {
  Sweep sweep = parse_sweep("seq_len=512,1024");
  sweep.holds_positions = true;
  sweep.experiment = {.model = "nano",
                      .data = "/somewhere/on/this/machine.bin",
                      .settings = {{"optimizer", "fused"}},
                      .toggles = std::vector<ToggleChoice>{{"attention", {"math", "cudnn"}}},
                      .rounds = 6,
                      .memory = false};
  const nlohmann::json json = to_json(sweep);
  EXPECT_EQ(json.dump().find("machine.bin"), std::string::npos) << "no place on this machine";
  EXPECT_EQ(json["points"][1]["folder"], "sequence_length-1024");
  const Sweep back = sweep_from_json(json, "sweep.json");
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.experiment.toggles, sweep.experiment.toggles);
}

}  // namespace
}  // namespace steplens
