#include <set>
#include <string>
#include <vector>

#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/results.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::CliResult;
using testing_support::CliWorld;

TEST(Cli, ExplainsEveryVerbWithAnExample) {
  CliWorld world;
  const std::vector<std::vector<std::string>> verbs = {
      {"matrix"},          {"run"},    {"list"},    {"list", "models"},
      {"list", "toggles"}, {"doctor"}, {"data"},    {"data", "prepare"},
      {"report"},          {"verify"}, {"compare"}, {}};
  for (std::vector<std::string> words : verbs) {
    const std::string name = words.empty() ? "steplens" : words.front();
    words.emplace_back("--help");
    const CliResult result = world.run(words);
    EXPECT_EQ(result.exit_code, 0) << name;
    EXPECT_THAT(result.out, HasSubstr("Example")) << name;
    EXPECT_EQ(result.err, "") << name;
  }
}

TEST(Cli, NamesItsVersionAndCommit) {
  CliWorld world;
  const CliResult result = world.run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, testing::MatchesRegex("steplens [0-9.]+ \\(git .*\\)\n"));
}

TEST(List, PrintsTablesAndJson) {
  CliWorld world;
  const std::vector<std::pair<std::string, std::string>> known = {{"models", "nano"},
                                                                  {"toggles", "attention"},
                                                                  {"metrics", "valid_tokens_per_s"},
                                                                  {"keys", "sequence_length"},
                                                                  {"arms", "torch-eager"}};
  for (const auto& [listing, name] : known) {
    const CliResult text = world.run({"list", listing});
    EXPECT_EQ(text.exit_code, 0);
    EXPECT_THAT(text.out, HasSubstr(name));
    const json rows = json::parse(world.run({"list", listing, "--json"}).out);
    std::set<std::string> names;
    for (const json& row : rows) names.insert(row.at("name").get<std::string>());
    EXPECT_TRUE(names.contains(name)) << listing;
    EXPECT_EQ(names.size(), rows.size()) << "a name twice in " << listing;
  }
}

TEST(Doctor, SaysWhatIsThere) {
  CliWorld world;
  const CliResult text = world.run({"doctor"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_FALSE(text.out.empty());
  const json checks = json::parse(world.run({"doctor", "--json"}).out);
  ASSERT_TRUE(checks.is_array());
  EXPECT_TRUE(checks.at(0).contains("finding"));
}

TEST(DataPrepare, MakesATokenFileThatAMatrixTakes) {
  CliWorld world;
  fs::create_directory(world.folder() / "text");
  std::ofstream(world.folder() / "text" / "a.txt") << "some real text, in a file\n";
  std::ofstream(world.folder() / "text" / "b.md") << "not wanted";
  const CliResult result = world.run({"data", "prepare", "--input", "text", "--pattern", "*.txt",
                                      "--name", "small", "--out", "small.bin", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json info = json::parse(result.out);
  EXPECT_EQ(info["name"], "small");
  EXPECT_EQ(info["num_tokens"], 26 + 1);  // Bytes, and the end of the document.
  const CliResult matrix = world.run({"matrix", "--device", "cpu", "--toggles", "attention=math",
                                      "--rounds", "1", "--data", "small.bin", "--out", "bundle"});
  EXPECT_EQ(matrix.exit_code, 0) << matrix.err;
  EXPECT_EQ(world.manifest().data["name"], "small");
}

// A stand-in for a LibTorch installation: what the default corpus is made from.
void make_site_packages(const fs::path& folder) {
  fs::create_directories(folder / "torch" / "lib");
  std::ofstream(folder / "torch" / "lib" / "libtorch_cpu.so") << "";
  std::ofstream(folder / "torch" / "nn.py") << "import math\nprint(math.pi)\n";
}

TEST(Matrix, PreparesTheDefaultCorpusOnce) {
  CliWorld world;
  make_site_packages(world.folder() / "site");
  const std::vector<std::string> arguments = {"matrix",    "--device",       "cpu",
                                              "--toggles", "attention=math", "--rounds",
                                              "1",         "--out",          "bundle"};
  const CliResult result =
      world.run(arguments, {{"STEPLENS_TORCH", (world.folder() / "site").string()}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("preparing the default corpus"));
  EXPECT_TRUE(fs::exists(world.folder() / "cache/steplens/data/torch-python-bytes.bin"));
  EXPECT_EQ(world.manifest().data["name"], "torch-python");
  fs::remove_all(world.bundle());
  const CliResult again = world.run(arguments, {{"STEPLENS_TORCH", "/nowhere"}});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("preparing")));
}

TEST(Matrix, FindsTheScriptsOfItsOwnArmsFromAnyFolder) {
  CliWorld world;  // Runs in a temporary folder.
  const CliResult result = world.run({"matrix", "--device", "cpu", "--arms", "baseline,torch-eager",
                                      "--data", world.data().string(), "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("torch-eager"));
}

TEST(Run, PrintsTheMetricsOfOneSetting) {
  CliWorld world;
  const CliResult result =
      world.run({"run", "--device", "cpu", "--data", world.data().string(), "--blocks", "3",
                 "--set", "attention=math", "--json", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json object = json::parse(result.out);
  EXPECT_EQ(object["config"]["attention"], "math");
  EXPECT_EQ(object["blocks"]["step_wall_ns"].size(), 3U);
  // 2 ms times 1.25, with 0.3 % of noise a block.
  EXPECT_NEAR(object["median"]["step_wall_ns"].get<double>(), 2.5e6, 0.05e6);
  // nano: 4 rows of 128 positions a step.
  EXPECT_NEAR(object["median"]["positions_per_s"].get<double>(), 512 / 2.5e-3, 0.02 * 512 / 2.5e-3);
  // Nothing is left in the current folder.
  EXPECT_FALSE(fs::exists(world.folder() / "runs"));
}

TEST(Run, KeepsTheBundleWhereItIsTold) {
  CliWorld world;
  const CliResult result = world.run({"run", "--device", "cpu", "--data", world.data().string(),
                                      "--out", world.bundle().string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("valid_tokens_per_s"), HasSubstr("median")));
  EXPECT_EQ(world.manifest().arms.size(), 1U);
}

TEST(Run, ExitsWithThreeWhenTheBlockFails) {
  CliWorld world;
  const CliResult result = world.run({"run", "--device", "cpu", "--data", world.data().string()},
                                     {{"STEPLENS_FAKE", "*:crash"}});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("SIGSEGV"));
}

}  // namespace
}  // namespace steplens
