#include "harness/run_config.h"

#include <functional>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

RunConfig valid() {
  RunConfig config;
  config.shape = {.num_layers = 2,
                  .d_model = 64,
                  .num_heads = 4,
                  .num_kv_heads = 2,
                  .head_dim = 16,
                  .ffn_width = 128,
                  .vocab_size = 300};
  return config;
}

TEST(ConfigFields, AreUniqueAndEachChangesExactlyItself) {
  std::set<std::string_view> names;
  const nlohmann::json defaults = to_json(valid());
  for (const ConfigField& field : config_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    const nlohmann::json value = defaults[std::string(field.name)];
    RunConfig changed = valid();
    // Another allowed value: the other word of a switch or list, or the number's neighbour.
    nlohmann::json other;
    if (value.is_string()) {
      const std::string allowed(field.allowed);
      const std::size_t bar = allowed.rfind(" | ");
      other = bar == std::string::npos ? "other-name" : allowed.substr(bar + 3);
      if (other == value) other = allowed.substr(0, allowed.find(" | "));
    } else if (value.is_number_float()) {
      other = 0.5;
    } else {
      other = value.get<std::int64_t>() + 3;
    }
    field.set(changed, other);
    EXPECT_EQ(differing_fields(valid(), changed), std::vector<std::string>{std::string(field.name)})
        << field.name << " set to " << other;
    EXPECT_EQ(run_config_from_json(nlohmann::json::parse(to_json(changed).dump())), changed)
        << field.name;
  }
}

TEST(SetConfigField, NamesKeyValueAndWhatIsAllowed) {
  RunConfig config = valid();
  EXPECT_EQ(message_of([&] { set_config_field(config, "attention", "flahs"); }),
            "attention=flahs: not allowed; attention takes math | mem_efficient | flash | cudnn "
            "(did you mean flash?)");
  EXPECT_EQ(message_of([&] { set_config_field(config, "global_batch", "0"); }),
            "global_batch=0: not allowed; global_batch takes an integer >= 1");
  EXPECT_EQ(message_of([&] { set_config_field(config, "global_batch", "8x"); }),
            "global_batch=8x: not allowed; global_batch takes an integer >= 1");
  EXPECT_EQ(message_of([&] { set_config_field(config, "beta1", "1.5"); }),
            "beta1=1.5: not allowed; beta1 takes a number from 0 to 1");
  EXPECT_EQ(message_of([&] { set_config_field(config, "atention", "math"); }),
            "atention: unknown key, did you mean attention?; `steplens list keys` shows all");
  EXPECT_EQ(config, valid()) << "a refused value changes nothing";
}

TEST(SetConfigField, TakesANumberOfRowsOrAllOfTheLoss) {
  RunConfig config = valid();
  set_config_field(config, "loss_rows", "16384");
  EXPECT_EQ(config.num_loss_rows, 16384);
  EXPECT_EQ(to_json(config)["loss_rows"], 16384);
  set_config_field(config, "loss_rows", "all");
  EXPECT_EQ(config.num_loss_rows, 0);
  EXPECT_EQ(to_json(config)["loss_rows"], "all");
  for (const char* wrong : {"0", "-1", "every", "8192.5"}) {
    EXPECT_EQ(
        message_of([&] { set_config_field(config, "loss_rows", wrong); }),
        "loss_rows=" + std::string(wrong) + ": not allowed; loss_rows takes an integer >= 1 | all");
  }
}

TEST(RunConfigFromJson, KeepsDefaultsOfMissingKeysAndRefusesUnknownOnes) {
  const RunConfig config = run_config_from_json({{"accumulation", 4}});
  EXPECT_EQ(config.num_accumulation, 4);
  EXPECT_EQ(config.sequence_length, RunConfig{}.sequence_length);
  EXPECT_THROW(run_config_from_json({{"no_such_key", 1}}), ConfigError);
  EXPECT_THROW(run_config_from_json({{"accumulation", -1}}), ConfigError);
  EXPECT_THROW(run_config_from_json({{"accumulation", 1.5}}), ConfigError);
  EXPECT_THROW(run_config_from_json(nlohmann::json::array()), ConfigError);
}

TEST(MicroBatchSize, FollowsFromTheIndependentKeys) {
  RunConfig config = valid();
  config.global_batch_size = 32;
  config.num_accumulation = 4;
  config.world_size = 2;
  EXPECT_EQ(micro_batch_size(config), 4);
  EXPECT_EQ(batch_arithmetic(config), "global 32 = micro 4 x accumulation 4 x world 2");
  config.accumulation_holds = AccumulationHolds::kMicroBatch;
  EXPECT_EQ(effective_global_batch_size(config), 128);
  EXPECT_EQ(micro_batch_size(config), 16);
}

TEST(Validate, RefusesWhatCannotBeBuilt) {
  EXPECT_NO_THROW(validate(valid()));
  const auto broken = [](auto change) {
    RunConfig config = valid();
    change(config);
    return message_of([&] { validate(config); });
  };
  EXPECT_NE(broken([](RunConfig& c) { c.num_accumulation = 3; }).find("multiple"),
            std::string::npos);
  EXPECT_NE(broken([](RunConfig& c) { c.shape.num_kv_heads = 3; }).find("num_kv_heads=3"),
            std::string::npos);
  EXPECT_NE(broken([](RunConfig& c) { c.shape.head_dim = 15; }).find("head_dim=15"),
            std::string::npos);
  EXPECT_NE(broken([](RunConfig& c) { c.shape.d_model = 60; }).find("d_model=60"),
            std::string::npos);
  EXPECT_NE(broken([](RunConfig& c) { c.sequence_length = 0; }).find("sequence_length=0"),
            std::string::npos);
}

TEST(NearestName, FindsTyposAndLeavesStrangersAlone) {
  const std::vector<std::string_view> names = {"attention", "accumulation", "graph"};
  EXPECT_EQ(nearest_name("acumulation", names), "accumulation");
  EXPECT_EQ(nearest_name("grpah", names), "graph");
  EXPECT_EQ(nearest_name("zzz", names), "");
}

}  // namespace
}  // namespace steplens
