#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing_support::CliResult;
using testing_support::CliWorld;
using testing_support::Environment;

std::vector<std::string> sweep(const CliWorld& world, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = world.matrix({"--sweep", "seq_len=64,128", "--rounds", "6"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json results(const CliWorld& world) {
  return read_json(world.bundle() / "sweep_results.json");
}

nlohmann::json row_of(const nlohmann::json& point, std::string_view arm) {
  for (const nlohmann::json& row : point.at("arms")) {
    if (row.at("name") == arm) return row;
  }
  return nullptr;
}

TEST(Sweep, MakesABundleAValueAndOneReport) {
  CliWorld world;
  const CliResult result = world.run(sweep(world));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json sweep_results = results(world);
  ASSERT_EQ(sweep_results["points"].size(), 2U);
  for (const nlohmann::json& point : sweep_results["points"]) {
    // attention=math takes 1.25 times as long in the fake world, at every length.
    EXPECT_NEAR(row_of(point, "attention=math")["effect_ratio"].get<double>(), 0.8, 0.01);
  }
  EXPECT_EQ(read_json(world.bundle() / "sequence_length-64" /
                      "manifest.json")["baseline"]["sequence_length"],
            64);
  EXPECT_THAT(read_file(world.bundle() / "report.md"), HasSubstr("sweep.svg"));
  EXPECT_TRUE(fs::exists(world.bundle() / "report.html"));
  EXPECT_THAT(result.out, HasSubstr("No arm crosses over"));
  const CliResult verified =
      world.run({"verify", (world.bundle() / "sequence_length-128").string()});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
}

TEST(Sweep, HoldsPositionsWhereItIsAskedTo) {
  CliWorld world;
  const CliResult result = world.run(sweep(world, {"--hold-positions", "--dry-run"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("sequence_length=64: 3 arms, 6 rounds, global 4 = "));
  EXPECT_THAT(result.out, HasSubstr("sequence_length=128: 3 arms, 6 rounds, global 2 = "));
  EXPECT_FALSE(fs::exists(world.bundle())) << "a dry run writes nothing";
}

TEST(Sweep, GoesOnWhereItStopped) {
  CliWorld world;
  const auto process = [&] {
    return world.start(sweep(world), {{"STEPLENS_FAKE_SLEEP_MS", "30"}});
  };
  testing_support::CliProcess running = process();
  ASSERT_TRUE(testing_support::eventually(
      [&] { return fs::exists(world.bundle() / "sequence_length-64" / "results.json"); }));
  running.send(SIGKILL);
  running.wait();
  const std::string first = read_file(world.bundle() / "sequence_length-64" / "manifest.json");
  const CliResult resumed = world.run({"matrix", "--resume", world.bundle().string()});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(read_file(world.bundle() / "sequence_length-64" / "manifest.json"), first)
      << "what was finished stays";
  EXPECT_TRUE(results(world)["points"][1]["is_measured"]);
}

TEST(Sweep, RefusesToResumeAnotherOne) {
  CliWorld world;
  ASSERT_EQ(world.run(sweep(world)).exit_code, 0);
  std::vector<std::string> other = world.matrix({"--sweep", "seq_len=64,256", "--resume"});
  const CliResult result = world.run(other);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("holds another sweep"));
}

TEST(Sweep, NamesBadInputBeforeAnythingIsWritten) {
  CliWorld world;
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"--sweep", "seq_len=64"}, "two or more"},
      {{"--sweep", "nothing=1,2"}, "nothing"},
      {{"--sweep", "seq_len=64,128", "--aa", "2"}, "A/A"},
      {{"--sweep", "layers=2,4", "--hold-positions"}, "hold-positions"},
      {{"--hold-positions"}, "takes a --sweep"},
      // The second value's heads do not divide: found before the first one runs.
      {{"--sweep", "num_heads=6,7"}, "num_kv_heads"}};
  for (const auto& [arguments, message] : table) {
    const CliResult result = world.run(world.matrix(arguments));
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(world.bundle())) << message;
  }
}

}  // namespace
}  // namespace steplens
