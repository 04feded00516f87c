// Every mistake of a user: one line that says what is wrong, the right exit code, nothing half
// written.

#include <string>
#include <vector>

#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/block.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::CliResult;
using testing_support::CliWorld;
using testing_support::Environment;
using testing_support::num_lines;

struct Mistake {
  std::vector<std::string> arguments;  // BUNDLE and DATA stand for the world's.
  std::vector<std::string> words;      // Of the message.
  int exit_code = 2;
  Environment environment = {};
};

std::vector<std::string> filled_in(const std::vector<std::string>& arguments,
                                   const CliWorld& world) {
  std::vector<std::string> result = arguments;
  for (std::string& argument : result) {
    if (argument == "BUNDLE") argument = world.bundle().string();
    if (argument == "DATA") argument = world.data().string();
  }
  return result;
}

void expect_one_line(const CliResult& result, const Mistake& mistake) {
  const std::string shown = testing::PrintToString(mistake.arguments);
  EXPECT_EQ(result.exit_code, mistake.exit_code) << shown << "\n" << result.err;
  EXPECT_EQ(num_lines(result.err), 1) << shown << "\n" << result.err;
  EXPECT_THAT(result.err, StartsWith("steplens: ")) << shown;
  for (const std::string& word : mistake.words) EXPECT_THAT(result.err, HasSubstr(word)) << shown;
}

// `steplens matrix` on the CPU with these flags.
Mistake flags(std::vector<std::string> more, std::vector<std::string> words) {
  std::vector<std::string> arguments = {"matrix", "--device", "cpu",   "--data",
                                        "DATA",   "--out",    "BUNDLE"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return {.arguments = arguments, .words = std::move(words)};
}

TEST(BadInput, IsRefusedWithOneLineAndNothingIsWritten) {
  const std::vector<Mistake> mistakes = {
      flags({"--toggles", "atention"}, {"unknown toggle atention", "did you mean attention?"}),
      {.arguments = {"trace", "--device", "cpu", "--data", "DATA", "--out", "BUNDLE", "--counters"},
       .words = {"counters: not applicable on a CPU"}},
      {.arguments = {"trace", "--device", "cpu", "--data", "DATA", "--out", "BUNDLE",
                     "--graph-level", "graph"},
       .words = {"graph-level=graph: not applicable on a CPU"}},
      {.arguments = {"trace", "--device", "cpu", "--data", "DATA", "--out", "BUNDLE", "--arm",
                     "a:attention=math,b:attention=math"},
       .words = {"arm=a:attention=math,b:attention=math: takes one arm"}},
      {.arguments = {"trace", "--device", "cpu", "--data", "DATA", "--out", "BUNDLE", "--arm",
                     "fast:graph=on"},
       .words = {"fast: CUDA graphs need a CUDA device"}},
      {.arguments = {"trace", "--device", "cpu", "--data", "DATA", "--out", "BUNDLE", "--arm",
                     "mine=/bin/true"},
       .words = {"arm=mine: not applicable on a CPU", "traced through CUDA"}},
      {.arguments = {"trace", "--arm", "torch-eager", "--", "/bin/true"},
       .words = {"arm=torch-eager", "not with another program"}},
      {.arguments = {"trace", "--graph-level", "kernel"},
       .words = {"graph-level", "node", "kernel"}},
      {.arguments = {"trace", "--counters", "--graph-level", "graph"},
       .words = {"--counters", "--graph-level"}},
      flags({"--toggles", "attention=mth"}, {"attention=mth", "did you mean math?", "flash"}),
      flags({"--toggles", "sequence_length"}, {"--set sequence_length="}),
      flags({"--toggles", "attention=math+optimizer=fused"}, {"two variables", "--grid"}),
      flags({"--toggles", "attention=flash"}, {"the baseline stands there already"}),
      flags({"--toggles", "graph"}, {"nothing to compare", "CUDA"}),
      flags({"--toggles", ""}, {"toggles"}),
      flags({"--model", "nono"}, {"model=nono", "did you mean nano?"}),
      flags({"--set", "sequence_lenght=64"}, {"sequence_lenght", "did you mean sequence_length?"}),
      flags({"--set", "precision=fp31"}, {"precision=fp31", "did you mean"}),
      flags({"--set", "precision"}, {"key=value"}),
      flags({"--set", "model=nano"}, {"--model nano"}),
      flags({"--set", "global_batch=0"}, {"global_batch=0", "integer >= 1"}),
      flags({"--set", "accumulation=3"}, {"global_batch=4", "multiple"}),
      flags({"--ranks", "3"}, {"global_batch=4", "multiple of accumulation x world = 1 x 3"}),
      flags({"--ranks", "0"}, {"--ranks"}),
      flags({"--ranks", "2", "--arms", "torch-profiler"},
            {"nothing to compare", "torch-profiler: this arm runs on one rank"}),
      flags({"--toggles", "no_sync"}, {"nothing to compare", "one rank"}),
      flags({"--ranks", "2", "--toggles", "no_sync"}, {"nothing to compare", "one micro-step"}),
      flags({"--rounds", "0"}, {"rounds=0"}),
      flags({"--rounds", "many"}, {"--rounds"}),
      flags({"--aa", "0"}, {"aa=0"}),
      flags({"--aa", "3", "--toggles", "attention"}, {"A/A"}),
      flags({"--grid", "attention"}, {"grid"}),
      flags({"--equivalence", "0.9"}, {"equivalence=0.9"}),
      flags({"--until-halfwidth", "wide"}, {"until-halfwidth=wide"}),
      flags({"--arms", "torch-eagr"}, {"unknown arm torch-eagr", "did you mean torch-eager?"}),
      flags({"--arms", "mine=/nowhere/at/all"}, {"/nowhere/at/all"}),
      flags({"--max-seconds", "-5"}, {"--max-seconds"}),
      flags({"--experiment", "missing.json"}, {"missing.json"}),
      flags({"--tggles", "graph"}, {"--tggles"}),
      {.arguments = {"matrix", "--device", "gpu", "--data", "DATA", "--out", "BUNDLE"},
       .words = {"device=gpu", "auto | cpu | cuda"}},
      {.arguments = {"matrix", "--device", "cpu", "--data", "missing.bin", "--out", "BUNDLE"},
       .words = {"missing.bin", "steplens data prepare"}},
      // No token file, and nothing to make one from: the exact command.
      {.arguments = {"matrix", "--device", "cpu", "--out", "BUNDLE"},
       .words = {"torch-python-bytes.bin", "`steplens data prepare`"},
       .environment = {{"STEPLENS_TORCH", "/nowhere"}}},
      {.arguments = {"matrix", "--device", "cpu", "--data", "DATA", "--out", "BUNDLE"},
       .words = {"/nowhere/worker", "STEPLENS_WORKER"},
       .environment = {{"STEPLENS_WORKER", "/nowhere/worker"}}},
      {.arguments = {"matrix", "--device", "cpu", "--data", "DATA", "--out", "/dev/null/bundle"},
       .words = {"/dev/null/bundle", "cannot write"}},
      {.arguments = {"matrix", "--resume", "BUNDLE"}, .words = {"nothing to resume"}},
      {.arguments = {"matrix", "--resume"}, .words = {"--resume FOLDER"}},
      {.arguments = {"matrx"}, .words = {"matrx", "did you mean matrix?"}},
      {.arguments = {}, .words = {"name a verb"}},
      {.arguments = {"list"}, .words = {}},
      {.arguments = {"run", "--device", "cpu", "--data", "DATA", "--blocks", "0"},
       .words = {"--blocks"}},
      {.arguments = {"data", "prepare", "--input", "x.txt"}, .words = {"--name"}},
      {.arguments = {"data", "prepare", "--tokenizer", "words"}, .words = {"--tokenizer"}},
      {.arguments = {"data", "prepare"},
       .words = {"no LibTorch was found"},
       .environment = {{"STEPLENS_TORCH", "/nowhere"}}},
      {.arguments = {"verify", "BUNDLE"}, .words = {"not a bundle"}},
  };
  for (const Mistake& mistake : mistakes) {
    CliWorld world;
    expect_one_line(world.run(filled_in(mistake.arguments, world), mistake.environment), mistake);
    EXPECT_FALSE(fs::exists(world.bundle())) << testing::PrintToString(mistake.arguments);
    EXPECT_FALSE(fs::exists(world.folder() / "runs"));
  }
}

TEST(BadInput, InAnExperimentFileIsNamedWithTheFile) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {R"({"toogles": "graph"})", {"e.json", "toogles", "did you mean toggles?"}},
      {R"({"arms": [{"attention": "math", "optimizer": "fused"}]})",
       {"e.json", "two variables", "--grid"}},
      {R"({"rounds": )", {"e.json", "damaged JSON"}},
      {R"([])", {"e.json", "not a JSON object"}},
  };
  for (const auto& [text, words] : table) {
    CliWorld world;
    std::ofstream(world.folder() / "e.json") << text;
    const Mistake mistake{.arguments = {"matrix", "--device", "cpu", "--data", "DATA", "--out",
                                        "BUNDLE", "--experiment", "e.json"},
                          .words = words};
    expect_one_line(world.run(filled_in(mistake.arguments, world)), mistake);
    EXPECT_FALSE(fs::exists(world.bundle()));
  }
}

TEST(BadInput, OfDataBeyondTheModelsVocabulary) {
  CliWorld world;
  write_json_atomically(world.folder() / "data.json",
                        {{"name", "large"}, {"sha256", "abc"}, {"max_token", 50000}});
  expect_one_line(world.run(world.matrix()), {.words = {"token 50000", "vocab_size=320"}});
  EXPECT_FALSE(fs::exists(world.bundle()));
}

TEST(BadInput, OfAGpuThatIsNotThere) {
  CliWorld world;
  const CliResult auto_device = world.run({"matrix", "--dry-run", "--json"});
  ASSERT_EQ(auto_device.exit_code, 0) << auto_device.err;
  if (nlohmann::json::parse(auto_device.out)["baseline"]["device"] == "cuda") {
    GTEST_SKIP() << "this machine has a GPU";
  }
  const Mistake mistake{.arguments = {"matrix", "--device", "cuda", "--model", "nano", "--data",
                                      "DATA", "--out", "BUNDLE", "--toggles", "attention=math"},
                        .words = {"no GPU here", "--device cpu"},
                        .exit_code = 3};
  expect_one_line(world.run(filled_in(mistake.arguments, world)), mistake);
  EXPECT_FALSE(fs::exists(world.bundle()));
}

TEST(BadInput, OfABundleThatIsNewerOrDamaged) {
  const auto expect_refused = [](const std::vector<std::string>& words, auto damage) {
    CliWorld world;
    ASSERT_EQ(world.run(world.matrix({"--rounds", "1"})).exit_code, 0);
    damage(world);
    const Mistake mistake{.arguments = {"matrix", "--resume", "BUNDLE"}, .words = words};
    expect_one_line(world.run(filled_in(mistake.arguments, world)), mistake);
  };
  const auto change_manifest = [](const CliWorld& world, const char* key,
                                  const nlohmann::json& value) {
    nlohmann::json manifest = read_json(world.bundle() / "manifest.json");
    manifest[key] = value;
    write_json_atomically(world.bundle() / "manifest.json", manifest);
  };
  expect_refused({"manifest.json", "schema_version"}, [&](const CliWorld& world) {
    change_manifest(world, "schema_version", kSchemaVersion + 1);
  });
  expect_refused({"0002", "block.json", "SHA-256"}, [](const CliWorld& world) {
    const fs::path path = block_path(world.bundle(), world.manifest().blocks[2]);
    write_file_atomically(path, read_file(path).substr(0, 100));
  });
  // Damaged in a way that its hash agrees with.
  expect_refused({"0002", "block.json", "damaged JSON"}, [](const CliWorld& world) {
    Manifest manifest = world.manifest();
    const fs::path path = block_path(world.bundle(), manifest.blocks[2]);
    write_file_atomically(path, read_file(path).substr(0, 100));
    manifest.blocks[2].sha256 = sha256_file_hex(path);
    write_json_atomically(world.bundle() / "manifest.json", to_json(manifest));
  });
  expect_refused({"manifest.json", "damaged JSON"}, [](const CliWorld& world) {
    const fs::path path = world.bundle() / "manifest.json";
    write_file_atomically(path, read_file(path).substr(0, 500));
  });
  expect_refused({"git_sha"}, [&](const CliWorld& world) {
    change_manifest(world, "git_sha", std::string(40, '0'));
  });
}

// A limit on the size of files stands for a full disk: the write fails in the same place.
TEST(BadInput, OfADiskThatIsFullLeavesNothingOrAResumableBundle) {
  CliWorld reference;
  ASSERT_EQ(reference.run(reference.matrix({"--rounds", "6"})).exit_code, 0);
  const auto full_bytes = fs::file_size(reference.bundle() / "manifest.json");

  CliWorld world;
  world.max_file_bytes = 100;  // Not even the first manifest fits.
  expect_one_line(world.run(world.matrix({"--rounds", "6"})),
                  {.words = {"manifest.json", "cannot write", "File too large"}});
  EXPECT_FALSE(fs::exists(world.bundle()));

  world.max_file_bytes = full_bytes * 9 / 10;  // The disk fills up in the middle of the run.
  const CliResult stopped = world.run(world.matrix({"--rounds", "6", "--quiet"}));
  expect_one_line(stopped, {.words = {"manifest.json", "cannot write"}});
  const Manifest manifest = world.manifest();
  EXPECT_GT(manifest.blocks.size(), 3U);
  EXPECT_EQ(manifest.stop_reason, "");

  world.max_file_bytes = 0;  // Somebody made room.
  const CliResult resumed = world.run({"matrix", "--resume", world.bundle().string()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(world.manifest().blocks.size(), 3U + 1U + 18U);
  EXPECT_EQ(world.run({"verify", world.bundle().string()}).exit_code, 0);
}

}  // namespace
}  // namespace steplens
