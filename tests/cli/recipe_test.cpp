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
