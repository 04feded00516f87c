#include <string>
#include <vector>

#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing_support::CliProcess;
using testing_support::CliResult;
using testing_support::CliWorld;
using testing_support::eventually;

std::vector<std::string> reproduce(const CliWorld& world,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"reproduce", world.bundle().string(),
                                        "--out",     (world.folder() / "again").string(),
                                        "--data",    world.data().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Manifest manifest_of(const fs::path& bundle) {
  return manifest_from_json(read_json(bundle / "manifest.json"), bundle.string());
}

TEST(Reproduce, RunsTheSameExperimentAndFindsTheSameEffects) {
  CliWorld world;
  ASSERT_EQ(world.run(world.matrix({"--rounds", "6", "--seed", "5"})).exit_code, 0);
  const CliResult result = world.run(reproduce(world));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("Reproduced: 2 of 2 effects agree"));
  const Manifest original = manifest_of(world.bundle());
  const Manifest again = manifest_of(world.folder() / "again");
  EXPECT_EQ(again.seed, 5U);
  EXPECT_EQ(again.rounds.size(), 6U);
  EXPECT_EQ(again.num_measured_steps, original.num_measured_steps);
  EXPECT_EQ(again.baseline, original.baseline);
  EXPECT_TRUE(fs::exists(world.folder() / "again" / "report.html"));
  // Once more: it is done, so it is only compared.
  const std::size_t num_blocks = again.blocks.size();
  const CliResult twice = world.run(reproduce(world, {"--json", "--quiet"}));
  EXPECT_EQ(twice.exit_code, 0) << twice.err;
  EXPECT_EQ(nlohmann::json::parse(twice.out)["num_agreeing"], 2);
  EXPECT_EQ(manifest_of(world.folder() / "again").blocks.size(), num_blocks);
}

TEST(Reproduce, FailsWhereAnEffectIsNotFoundAgain) {
  CliWorld world;
  ASSERT_EQ(world.run(world.matrix({"--rounds", "6"})).exit_code, 0);
  // In another world the math kernel costs half as much again.
  const CliResult result =
      world.run(reproduce(world), {{"STEPLENS_FAKE", "attention=math:slower@rounds"}});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("NOT REPRODUCED: 1 of 2 effects agree"));
}

TEST(Reproduce, GoesOnAfterItWasStopped) {
  CliWorld world;
  ASSERT_EQ(world.run(world.matrix({"--rounds", "6"})).exit_code, 0);
  CliProcess process = world.start(reproduce(world), {{"STEPLENS_FAKE_SLEEP_MS", "60"}});
  const fs::path manifest = world.folder() / "again" / "manifest.json";
  ASSERT_TRUE(eventually([&] {
    return fs::exists(manifest) && manifest_of(manifest.parent_path()).blocks.size() >= 6;
  }));
  process.send(SIGINT);
  const CliResult stopped = process.wait();
  EXPECT_EQ(stopped.exit_code, 4) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("continue with: steplens reproduce "));
  EXPECT_THAT(stopped.out, Not(HasSubstr("eproduced")));
  const std::size_t num_blocks = manifest_of(manifest.parent_path()).blocks.size();
  const CliResult result = world.run(reproduce(world));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_GT(manifest_of(manifest.parent_path()).blocks.size(), num_blocks);
}

TEST(Reproduce, TakesFewerRounds) {
  CliWorld world;
  ASSERT_EQ(world.run(world.matrix({"--rounds", "6"})).exit_code, 0);
  const CliResult result = world.run(reproduce(world, {"--rounds", "3"}));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("rounds: 6 there, 3 here"));
}

TEST(Reproduce, RefusesWhatCannotBe) {
  CliWorld world;
  const CliResult none = world.run({"reproduce", (world.folder() / "none").string()});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("nothing to reproduce"));
  ASSERT_EQ(world.run(world.matrix({"--rounds", "2"})).exit_code, 0);
  const CliResult itself = world.run({"reproduce", world.bundle().string(), "--data",
                                      world.data().string(), "--out", world.bundle().string()});
  EXPECT_EQ(itself.exit_code, 2);
  EXPECT_THAT(itself.err, HasSubstr("is the bundle itself"));
}

}  // namespace
}  // namespace steplens
