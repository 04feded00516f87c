#include "harness/block.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

RunConfig small_config() {
  RunConfig config;
  config.shape = {.num_layers = 1,
                  .d_model = 8,
                  .num_heads = 2,
                  .num_kv_heads = 1,
                  .head_dim = 4,
                  .ffn_width = 16,
                  .vocab_size = 32};
  return config;
}

BlockRecord record_of_two_steps() {
  BlockRecord record{.arm = "baseline", .round_index = 3, .config = small_config()};
  record.steps = {.step_wall_ns = {1'000'000'000, 3'000'000'000},
                  .num_positions = {100, 100},
                  .num_valid_tokens = {90, 70},
                  .num_loss_tokens = {80, 60},
                  .loss = {2.5, 2.25},
                  .grad_norm = {1, 0.5},
                  .lr = {1e-3, 2e-3},
                  .data_wait_ns = {10, 20}};
  return record;
}

TEST(TokenRates, AreTotalsOverTotalWallTime) {
  const BlockRecord record = record_of_two_steps();
  EXPECT_DOUBLE_EQ(positions_per_s(record), 50);     // 200 / 4 s
  EXPECT_DOUBLE_EQ(valid_tokens_per_s(record), 40);  // 160 / 4 s
  EXPECT_DOUBLE_EQ(loss_tokens_per_s(record), 35);   // 140 / 4 s
  EXPECT_DOUBLE_EQ(mean_step_wall_ns(record), 2e9);
}

TEST(BlockRecordJson, KeepsEverythingAndWritesAbsentTimesAsNull) {
  BlockRecord record = record_of_two_steps();
  record.steps.loss[1] = std::numeric_limits<double>::quiet_NaN();
  const nlohmann::json json = nlohmann::json::parse(to_json(record).dump());
  EXPECT_TRUE(json["steps"]["step_gpu_ns"].is_null());
  EXPECT_TRUE(json["steps"]["loss"][1].is_null());
  const BlockRecord again = block_record_from_json(json, "block.json");
  EXPECT_EQ(again.steps.step_wall_ns, record.steps.step_wall_ns);
  EXPECT_EQ(again.steps.loss[0], 2.5);
  EXPECT_TRUE(std::isnan(again.steps.loss[1]));
  EXPECT_EQ(again.round_index, 3);
  EXPECT_EQ(again.config, record.config);
}

TEST(BlockRecordJson, RefusesDamageByFileAndField) {
  const auto message = [](auto damage) -> std::string {
    nlohmann::json json = to_json(record_of_two_steps());
    damage(json);
    try {
      block_record_from_json(json, "blocks/7/block.json");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([](nlohmann::json& json) { json["steps"]["loss"] = {1.0}; }),
            "blocks/7/block.json: steps: loss has 1 entries and step_wall_ns 2");
  EXPECT_EQ(message([](nlohmann::json& json) { json.erase("arm"); }),
            "blocks/7/block.json: field arm is missing");
  EXPECT_EQ(message([](nlohmann::json& json) { json["steps"]["lr"] = "x"; }),
            "blocks/7/block.json: steps: field lr is not an array");
  EXPECT_EQ(message([](nlohmann::json& json) { json["schema_version"] = 99; }),
            "blocks/7/block.json: schema_version=99: this program reads 1 to 1; a newer Steplens "
            "wrote it");
  EXPECT_NE(message([](nlohmann::json& json) { json["status"] = "fine"; }).find("status=fine"),
            std::string::npos);
}

TEST(BlockConfigJson, ComesBackAsItWasAndRefusesNoSteps) {
  BlockConfig config{.config = small_config(),
                     .seed = 7,
                     .kind = BlockKind::kPilot,
                     .arm = "graph=on",
                     .device_id = "GPU-1",
                     .num_warmup_steps = 5,
                     .num_measured_steps = 30,
                     .data_path = "data/x.bin",
                     .output_folder = "out"};
  const BlockConfig again = block_config_from_json(to_json(config));
  EXPECT_EQ(again.seed, 7u);
  EXPECT_EQ(again.kind, BlockKind::kPilot);
  EXPECT_EQ(again.device_id, "GPU-1");
  EXPECT_EQ(again.num_measured_steps, 30);
  config.num_measured_steps = 0;
  EXPECT_THROW(block_config_from_json(to_json(config)), ConfigError);
}

}  // namespace
}  // namespace steplens
