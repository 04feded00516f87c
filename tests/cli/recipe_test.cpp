#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_support::CliResult;
using testing_support::CliWorld;

// Starts at attention=math, which takes 1.25 times as long in the fake world, and at
// optimizer=loop; fused takes 0.96 of it.
std::vector<std::string> recipe(const CliWorld& world, const std::string& order) {
  return {"recipe",
          "--device",
          "cpu",
          "--data",
          world.data().string(),
          "--out",
          world.bundle().string(),
          "--rounds",
          "6",
          "--order",
          order};
}

nlohmann::json state(const CliWorld& world) { return read_json(world.bundle() / "recipe.json"); }

TEST(Recipe, KeepsWhatWinsAndUndoesEachAtTheEnd) {
  CliWorld world;
  const CliResult result =
      world.run(recipe(world, "attention=flash,checkpoint,optimizer=foreach|fused"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = state(world);
  EXPECT_EQ(json["is_done"], true);
  const nlohmann::json& steps = json["steps"];
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0]["kept_level"], "flash");
  EXPECT_EQ(steps[1]["kept_level"], "") << "checkpoints cost 10 %";
  EXPECT_EQ(steps[2]["kept_level"], "fused");
  const nlohmann::json& undone = json["leave_one_out"];
  ASSERT_EQ(undone.size(), 2U);
  EXPECT_NEAR(undone[0]["effect_ratio"].get<double>(), 0.8, 0.01);
  EXPECT_NEAR(undone[1]["effect_ratio"].get<double>(), 0.96, 0.01);
  EXPECT_EQ(undone[0]["is_needed"], true);
  EXPECT_EQ(undone[1]["is_needed"], true);
  // The last step ran on top of what was kept before.
  const nlohmann::json last =
      read_json(world.bundle() / "03-optimizer" / "manifest.json")["baseline"];
  EXPECT_EQ(last["attention"], "flash");
  EXPECT_EQ(last["checkpoint"], "off");
  EXPECT_THAT(result.out, HasSubstr("1.30 times the start's rate with attention=flash, "
                                    "optimizer=fused"));
  EXPECT_THAT(read_file(world.bundle() / "report.md"), HasSubstr("recipe.svg"));
}

TEST(Recipe, SkipsWhatCannotRunWithItsReason) {
  CliWorld world;
  const CliResult result = world.run(recipe(world, "graph=on,attention=flash|math"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json step = state(world)["steps"][0];
  EXPECT_EQ(step["folder"], "");
  EXPECT_THAT(step["reason"].get<std::string>(), HasSubstr("not applicable"));
}

TEST(Recipe, GoesOnWhereItStopped) {
  CliWorld world;
  testing_support::CliProcess running = world.start(
      recipe(world, "attention=flash,optimizer=fused"), {{"STEPLENS_FAKE_SLEEP_MS", "30"}});
  ASSERT_TRUE(testing_support::eventually(
      [&] { return fs::exists(world.bundle() / "01-attention" / "results.json"); }));
  running.send(SIGKILL);
  running.wait();
  const std::string first = read_file(world.bundle() / "01-attention" / "manifest.json");
  const CliResult resumed = world.run({"recipe", "--resume", world.bundle().string()});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(read_file(world.bundle() / "01-attention" / "manifest.json"), first);
  EXPECT_EQ(state(world)["steps"].size(), 2U);
  EXPECT_EQ(state(world)["is_done"], true);
}

// In this world compile=aoti takes 0.95 of a step and checkpoint=full, which it excludes, 0.8.
TEST(Recipe, TriesWhatAKeptToggleExcludesInItsPlace) {
  CliWorld world;
  const fs::path python =
      world.folder() / "bin" / "python3";  // Exports the package: nothing to do.
  fs::create_directories(python.parent_path());
  write_file_atomically(python, "#!/bin/sh\nexit 0\n");
  fs::permissions(python, fs::perms::owner_all);
  const testing_support::Environment environment = {
      {"PATH", python.parent_path().string() + ":/usr/bin:/bin"},
      {"STEPLENS_FAKE_CHECKPOINT_FACTOR", "0.8"}};
  const CliResult result =
      world.run(recipe(world, "compile=aoti,checkpoint=full,optimizer=fused"), environment);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = state(world);
  ASSERT_EQ(json["steps"].size(), 4U);
  EXPECT_EQ(json["steps"][0]["kept_level"], "aoti");
  EXPECT_EQ(json["steps"][1]["folder"], "") << "compile=aoti excludes it";
  const nlohmann::json& alternative = json["steps"][3];
  EXPECT_EQ(alternative["folder"], "04-without-compile");
  EXPECT_EQ(alternative["kept_level"], "off");
  ASSERT_EQ(alternative["changes"].size(), 2U);
  EXPECT_EQ(alternative["changes"][1]["toggle"], "checkpoint");
  // Final: checkpoint and optimizer; what is undone is no part of it.
  ASSERT_EQ(json["leave_one_out"].size(), 2U);
  EXPECT_EQ(json["leave_one_out"][0]["toggle"], "optimizer");
  EXPECT_EQ(json["leave_one_out"][1]["toggle"], "checkpoint");
  EXPECT_NEAR(json["leave_one_out"][1]["effect_ratio"].get<double>(), 0.8, 0.01);
  // 1 / (0.8 x 0.96), measured as three factors: 1 / 0.95, 1 / 0.96 and 0.95 / 0.8.
  EXPECT_THAT(result.out,
              HasSubstr("1.30 times the start's rate with optimizer=fused, checkpoint=full"));
  const std::string report = read_file(world.bundle() / "report.md");
  EXPECT_THAT(report, HasSubstr("without-compile is FASTER, +18."));
  EXPECT_THAT(report, HasSubstr("| without compile | all of it |"));
  EXPECT_THAT(report, HasSubstr("- Not tried: checkpoint=full: ")) << "as the plan refuses it";
  EXPECT_THAT(report, HasSubstr("| checkpoint=full instead of compile=aoti +18."));
  const std::string plot = read_file(world.bundle() / "recipe.svg");
  EXPECT_THAT(plot, HasSubstr("without compile"));
  EXPECT_THAT(plot, HasSubstr("all it excluded: "));
  // Going on with a finished recipe decides the same.
  const CliResult again = world.run({"recipe", "--resume", world.bundle().string()}, environment);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(state(world)["steps"], json["steps"]);
  EXPECT_EQ(state(world)["leave_one_out"].size(), 2U);
}

TEST(Recipe, NamesBadInput) {
  CliWorld world;
  const CliResult unknown = world.run(recipe(world, "attention=flash,nothing"));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("nothing"));
  std::vector<std::string> goal = recipe(world, "attention=flash");
  goal.insert(goal.end(), {"--memory-goal", "much"});
  EXPECT_THAT(world.run(goal).err, HasSubstr("memory-goal=much"));
  EXPECT_THAT(world.run({"recipe"}).err, HasSubstr("--out"));
  EXPECT_FALSE(fs::exists(world.bundle()));
}

}  // namespace
}  // namespace steplens
