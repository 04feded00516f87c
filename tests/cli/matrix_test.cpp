#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::CliProcess;
using testing_support::CliResult;
using testing_support::CliWorld;
using testing_support::eventually;

std::vector<std::string> arm_names(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const Arm& arm : manifest.arms) names.push_back(arm.name);
  return names;
}

// ---- A whole matrix. ----

TEST(Matrix, FindsTheEffectsOfTheFakeWorld) {
  CliWorld world;
  const CliResult result = world.run(world.matrix({"--rounds", "8"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // attention=math takes 1.25 times as long; 1 ms on top of 2 ms leaves 2/3 of the rate. Noise of a
  // block is 0.3 %.
  const nlohmann::json math = world.result_of("attention=math");
  EXPECT_EQ(math["verdict"], "SLOWER");
  EXPECT_EQ(math["proof"], "proven");
  EXPECT_NEAR(math["effect_ratio"].get<double>(), 0.8, 0.01);
  EXPECT_EQ(math["num_rounds"], 8);
  EXPECT_NEAR(world.result_of("injected_spin=1ms")["effect_ratio"].get<double>(), 2.0 / 3, 0.01);
  EXPECT_THAT(result.out, HasSubstr("attention=math"));
  EXPECT_TRUE(fs::exists(world.bundle() / "report.md"));
  const CliResult verified = world.run({"verify", world.bundle().string()});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
}

TEST(Matrix, PrintsResultsAsJson) {
  CliWorld world;
  const CliResult result = world.run(world.matrix({"--rounds", "1", "--json", "--quiet"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["arms"].size(), 3U);
}

TEST(Matrix, StoresTheDataAndTheProgram) {
  CliWorld world;
  world.run(world.matrix({"--rounds", "1", "--title", "a title"}));
  const Manifest manifest = world.manifest();
  EXPECT_EQ(manifest.data["sha256"], "abc");
  EXPECT_EQ(manifest.baseline.dataset, "test-corpus");
  EXPECT_EQ(manifest.title, "a title");
  EXPECT_FALSE(manifest.git_sha.empty());
  EXPECT_FALSE(manifest.environment.empty());
}

TEST(Matrix, ExitsWithZeroWhenRowsFail) {
  CliWorld world;
  const CliResult result = world.run(world.matrix({"--rounds", "2"}),
                                     {{"STEPLENS_FAKE", "attention=math:crash@rounds"}});
  EXPECT_EQ(result.exit_code, 0);
  const nlohmann::json row = world.result_of("attention=math");
  EXPECT_EQ(row["verdict"], "FAILED");
  EXPECT_THAT(row["reason"].get<std::string>(), HasSubstr("SIGSEGV"));
  EXPECT_EQ(world.result_of("injected_spin=1ms")["num_rounds"], 2);
}

// Every way in which a block can go wrong, by what its arm is told to do.
TEST(Matrix, SaysHowABlockFailed) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"crash", {"crash", "SIGSEGV"}},
      {"exit", {"crash", "exit code 7", "fake_block: cannot go on"}},
      {"oom", {"oom", "out of memory"}},
      {"nan", {"nan", "NaN"}},
      {"garbage", {"crash", "damaged block.json"}},
      {"wrong", {"crash", "somebody-else"}},
      {"nofile", {"crash", "without a block.json"}},
      {"late-crash", {"crash", "SIGSEGV"}},
      {"chatty", {"crash", "exit code 9", "line 99"}},
      {"unsupported", {"unsupported", "needs a GPU"}},
      {"path", {"crash", "cannot open weights.bin: denied"}},
      {"hang", {"timeout", "no end after 1 s"}},
  };
  for (const auto& [behaviour, words] : table) {
    CliWorld world;
    const CliResult result = world.run(world.matrix({"--rounds", "1", "--block-timeout", "1"}),
                                       {{"STEPLENS_FAKE", "attention=math:" + behaviour}});
    EXPECT_EQ(result.exit_code, 0) << behaviour << ": " << result.err;
    const std::string reason = world.manifest().failed_arms["attention=math"].get<std::string>();
    for (const std::string& word : words) EXPECT_THAT(reason, HasSubstr(word)) << behaviour;
  }
}

TEST(Matrix, RefusesABlockOfTheWrongLength) {
  CliWorld world;
  world.run(world.matrix({"--rounds", "1"}), {{"STEPLENS_FAKE", "attention=math:short@rounds"}});
  EXPECT_THAT(world.manifest().failed_arms["attention=math"].get<std::string>(),
              HasSubstr("29 measured steps, 30 were asked for"));
}

TEST(Matrix, RepeatsWhatFailsOnce) {
  CliWorld world;
  const CliResult result =
      world.run(world.matrix({"--rounds", "2"}), {{"STEPLENS_FAKE", "*:crash@first"}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(world.manifest().failed_arms.empty());
  EXPECT_EQ(world.result_of("attention=math")["num_rounds"], 2);
  EXPECT_EQ(world.run({"verify", world.bundle().string()}).exit_code, 0);
}

TEST(Matrix, ExitsWithThreeWhenTheBaselineFails) {
  CliWorld world;
  const CliResult result =
      world.run(world.matrix({"--rounds", "1"}), {{"STEPLENS_FAKE", "baseline:oom"}});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("the baseline failed: oom"));
}

TEST(Matrix, LeavesNoPathOfThisMachineInTheBundle) {
  CliWorld world;
  world.run(world.matrix({"--rounds", "1"}), {{"STEPLENS_FAKE", "attention=math:path@first"}});
  for (const auto& entry : fs::recursive_directory_iterator(world.bundle())) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_file(entry.path());
    EXPECT_THAT(text, Not(HasSubstr(world.folder().string()))) << entry.path();
    EXPECT_THAT(text, Not(HasSubstr("/home/somebody"))) << entry.path();
  }
}

TEST(Matrix, KeepsLogsIfAskedTo) {
  CliWorld world;
  world.run(world.matrix({"--rounds", "1", "--keep-logs"}),
            {{"STEPLENS_FAKE", "attention=math:chatty@pilot"}});
  const std::string log = read_file(world.bundle() / "blocks/0001-pilot-attention-math/output.log");
  EXPECT_TRUE(log.starts_with("line 0\n"));
}

// ---- Other shapes of a matrix. ----

TEST(Matrix, RunsAnAa) {
  CliWorld world;
  const CliResult result =
      world.run({"matrix", "--device", "cpu", "--data", world.data().string(), "--out",
                 world.bundle().string(), "--aa", "3", "--rounds", "6"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(arm_names(world.manifest()), ElementsAre("aa-00", "aa-01", "aa-02", "aa-03"));
  EXPECT_EQ(world.result_of("aa-02")["reference"], "aa-01");
  EXPECT_EQ(world.run({"verify", world.bundle().string()}).exit_code, 0);
}

TEST(Matrix, CrossesTwoToggles) {
  CliWorld world;
  const CliResult result = world.run({"matrix", "--device", "cpu", "--data", world.data().string(),
                                      "--out", world.bundle().string(), "--grid",
                                      "attention=math,accumulation=2|4", "--rounds", "6"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json cell = world.result_of("attention=math+accumulation=4");
  EXPECT_EQ(cell["reference"], "accumulation=4");
  EXPECT_TRUE(cell["is_single_variable"].get<bool>());
  EXPECT_NEAR(cell["effect_ratio"].get<double>(), 0.8, 0.01);
  EXPECT_THAT(result.out, HasSubstr("attention=math and accumulation=4"));
  EXPECT_THAT(world.run({"report", world.bundle().string()}).out,
              HasSubstr("attention=math and accumulation=4"))
      << "what a grid was run for";
  EXPECT_EQ(world.run({"verify", world.bundle().string()}).exit_code, 0);
}

TEST(Matrix, RunsAnotherProgramAsAnArm) {
  CliWorld world;
  const CliResult result =
      world.run({"matrix", "--device", "cpu", "--data", world.data().string(), "--out",
                 world.bundle().string(), "--arms",
                 std::string("baseline,mine=") + STEPLENS_FAKE_BLOCK_PATH, "--rounds", "6"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(arm_names(world.manifest()), ElementsAre("baseline", "mine"));
  EXPECT_THAT(world.manifest().arms[1].command, ElementsAre("fake_block"));
  EXPECT_EQ(world.result_of("mine")["num_rounds"], 6);
  EXPECT_FALSE(world.result_of("mine")["is_single_variable"].get<bool>());
}

TEST(Matrix, ReadsAnExperimentFile) {
  CliWorld world;
  write_json_atomically(world.folder() / "e.json", {{"device", "cpu"},
                                                    {"data", world.data().string()},
                                                    {"set", {{"sequence_length", 64}}},
                                                    {"toggles", {{"attention", {"math"}}}},
                                                    {"rounds", 9},
                                                    {"seed", 77}});
  const CliResult result = world.run(
      {"matrix", "--experiment", "e.json", "--rounds", "2", "--out", world.bundle().string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Manifest manifest = world.manifest();
  EXPECT_EQ(manifest.baseline.sequence_length, 64);
  EXPECT_EQ(manifest.num_rounds_planned, 2);  // The flag wins.
  EXPECT_EQ(manifest.seed, 77U);
}

TEST(Matrix, ListsWhatCannotRun) {
  CliWorld world;
  const CliResult result =
      world.run({"matrix", "--device", "cpu", "--data", world.data().string(), "--out",
                 world.bundle().string(), "--toggles", "attention=math|cudnn", "--rounds", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(world.result_of("attention=cudnn")["reason"].get<std::string>(), HasSubstr("CUDA"));
  EXPECT_TRUE(world.result_of("attention=cudnn")["verdict"].is_null());
}

TEST(Matrix, PrintsAPlanAndWritesNothing) {
  CliWorld world;
  const CliResult result = world.run(world.matrix({"--rounds", "5", "--dry-run"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("5 rounds x 3 blocks"), HasSubstr("attention: flash -> math"),
                    HasSubstr("global 4 = micro 4 x accumulation 1 x world 1")));
  EXPECT_FALSE(fs::exists(world.bundle()));
  // As JSON, with what a default matrix cannot run here, and without a worker or data.
  const CliResult json = world.run({"matrix", "--device", "cpu", "--dry-run", "--json"},
                                   {{"STEPLENS_WORKER", "/nowhere"}});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  bool has_reason = false;
  const nlohmann::json plan = nlohmann::json::parse(json.out);
  for (const nlohmann::json& arm : plan["arms"]) {
    has_reason = has_reason || (arm["name"] == "graph=on" && arm["not_applicable_reason"] != "");
  }
  EXPECT_TRUE(has_reason);
}

TEST(Matrix, ExpectsBlocksAsLongAsThoseOfAnotherBundle) {
  CliWorld world;
  world.run(world.matrix({"--rounds", "1"}));
  const CliResult result =
      world.run(world.matrix({"--dry-run", "--json", "--like", world.bundle().string()}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // Fake blocks take a few hundredths of a second: the default would be minutes.
  EXPECT_LT(nlohmann::json::parse(result.out)["expected_s"].get<double>(), 12 * 3 * 20 / 2);
}

// ---- Stopping and going on. ----

TEST(Matrix, StopsAtTheTimeLimitAndGoesOn) {
  CliWorld world;
  const CliResult stopped = world.run(world.matrix({"--rounds", "400", "--max-seconds", "4"}),
                                      {{"STEPLENS_FAKE_SLEEP_MS", "50"}});
  ASSERT_EQ(stopped.exit_code, 0) << stopped.err;
  const Manifest manifest = world.manifest();
  EXPECT_THAT(manifest.stop_reason, HasSubstr("time limit: 4 s"));
  ASSERT_FALSE(manifest.rounds.empty());
  EXPECT_LT(manifest.rounds.size(), 400U);
  for (const RoundRecord& round : manifest.rounds) EXPECT_TRUE(round.is_complete);
  EXPECT_TRUE(fs::exists(world.bundle() / "report.md"));
  const CliResult more = world.run({"matrix", "--resume", world.bundle().string(), "--data",
                                    world.data().string(), "--max-seconds", "2"});
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_GT(world.manifest().rounds.size(), manifest.rounds.size());
}

TEST(Matrix, IsIncompleteIfTheTimeIsOverBeforeARound) {
  CliWorld world;
  const CliResult result = world.run(world.matrix({"--max-seconds", "0.001"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("steplens matrix --resume"));
}

TEST(Matrix, StopsGentlyAtTheFirstCtrlC) {
  CliWorld world;
  CliProcess process =
      world.start(world.matrix({"--rounds", "3"}), {{"STEPLENS_FAKE", "*:hang@round1"}});
  ASSERT_TRUE(eventually([&] {
    return fs::exists(world.bundle() / "manifest.json") && world.manifest().rounds.size() == 2;
  }));
  process.send(SIGINT);
  const CliResult result = process.wait();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, AllOf(HasSubstr("stopped after 1 complete rounds"),
                                HasSubstr("steplens matrix --resume " + world.bundle().string())));
  EXPECT_EQ(world.manifest().stop_reason, "");
  const CliResult resumed = world.run({"matrix", "--resume", world.bundle().string()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(world.manifest().rounds.size(), 3U);
  EXPECT_EQ(world.run({"verify", world.bundle().string()}).exit_code, 0);
}

TEST(Matrix, StopsAtOnceAtTheSecondCtrlC) {
  CliWorld world;
  // A block that ignores SIGTERM would hold a gentle stop up for two seconds.
  CliProcess process =
      world.start(world.matrix({"--rounds", "3"}), {{"STEPLENS_FAKE", "*:deaf@round1"}});
  ASSERT_TRUE(eventually([&] {
    return fs::exists(world.bundle() / "manifest.json") && world.manifest().rounds.size() == 2;
  }));
  process.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  process.send(SIGINT);
  EXPECT_EQ(process.wait().exit_code, 4);
  EXPECT_EQ(world.run({"matrix", "--resume", world.bundle().string()}).exit_code, 0);
}

TEST(Matrix, ResumesWithTheWholeRequestOrWithTheFolderAlone) {
  for (const bool repeats_request : {true, false}) {
    CliWorld world;
    CliProcess process =
        world.start(world.matrix({"--rounds", "2"}), {{"STEPLENS_FAKE", "*:hang@round0"}});
    ASSERT_TRUE(eventually([&] {
      return fs::exists(world.bundle() / "manifest.json") && !world.manifest().rounds.empty();
    }));
    process.send(SIGTERM);
    ASSERT_EQ(process.wait().exit_code, 4);
    const CliResult result = repeats_request
                                 ? world.run(world.matrix({"--rounds", "2", "--resume"}))
                                 : world.run({"matrix", "--resume", world.bundle().string()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(world.manifest().stop_reason, "planned rounds done");
  }
}

TEST(Matrix, RefusesToResumeAnotherRequest) {
  CliWorld world;
  ASSERT_EQ(world.run(world.matrix({"--rounds", "1"})).exit_code, 0);
  const CliResult result = world.run(world.matrix({"--rounds", "2", "--resume"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("rounds: the bundle was begun with 1, now it is 2"));
}

TEST(Matrix, RefusesASecondRunOfTheSameBundle) {
  CliWorld world;
  CliProcess process =
      world.start(world.matrix({"--rounds", "1"}), {{"STEPLENS_FAKE", "*:hang@pilot"}});
  ASSERT_TRUE(eventually([&] { return fs::exists(world.bundle() / "manifest.json"); }));
  const CliResult second = world.run({"matrix", "--resume", world.bundle().string()});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err, HasSubstr("another steplens is running this bundle"));
  process.send(SIGINT);
  EXPECT_EQ(process.wait().exit_code, 4);
}

}  // namespace
}  // namespace steplens
