#include "reports/verify.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The eight rounds on disk.
class Verify : public testing::Test {
 protected:
  void write() { builder_.write(folder_.path()); }

  std::vector<std::string> problems() const { return verify(folder_.path()); }

  fs::path path_of(const std::string& name) const { return folder_.path() / name; }

  void edit_json(const std::string& name, const std::function<void(json&)>& edit) const {
    json object = read_json(path_of(name));
    edit(object);
    write_json_atomically(path_of(name), object);
  }

  // As somebody would who also covers up the traces.
  void forge_block(const std::string& folder, const std::function<void(json&)>& edit) {
    edit_json("blocks/" + folder + "/block.json", edit);
    const std::string sha256 = sha256_file_hex(path_of("blocks/" + folder + "/block.json"));
    edit_json("manifest.json", [&](json& manifest) {
      for (json& entry : manifest["blocks"]) {
        if (entry["folder"] == folder) entry["sha256"] = sha256;
      }
    });
  }

  std::string folder_of(const std::string& arm, int round_index) {
    for (const BlockEntry& entry : builder_.manifest().blocks) {
      if (entry.arm == arm && entry.round_index == round_index) return entry.folder;
    }
    throw std::out_of_range(arm);
  }

  TemporaryFolder folder_;
  BundleBuilder builder_ = eight_rounds();
};

TEST_F(Verify, AcceptsAnUntouchedBundle) {
  write();
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(Verify, FindsAChangedNumberByItsPath) {
  write();
  edit_json("results.json", [](json& results) {
    results["arms"][1]["effect_ratio"] = results["arms"][1]["effect_ratio"].get<double>() * 1.001;
  });
  EXPECT_THAT(problems(),
              ElementsAre(StartsWith("results.json: arms[1].effect_ratio: stored 1.0318")));
}

TEST_F(Verify, ForgivesTheLastDigitsButNotMore) {
  write();
  const auto scale_p = [](double factor) {
    return [factor](json& results) {
      results["arms"][1]["p_value"] = results["arms"][1]["p_value"].get<double>() * factor;
    };
  };
  edit_json("results.json", scale_p(1 + 5e-10));
  EXPECT_THAT(problems(), IsEmpty());
  edit_json("results.json", scale_p(1 + 2e-9));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("arms[1].p_value")));
}

TEST_F(Verify, FindsAChangedVerdictAndAFieldThatWasTakenOut) {
  write();
  edit_json("results.json", [](json& results) {
    results["arms"][2]["verdict"] = "FASTER";
    results["arms"][2].erase("p_adjusted");
    results["arms"][2]["bonus_ratio"] = 2;
  });
  EXPECT_THAT(problems(),
              ElementsAre("results.json: arms[2].p_adjusted: missing",
                          "results.json: arms[2].bonus_ratio: stored 2, but nothing computes it",
                          "results.json: arms[2].verdict: stored \"FASTER\", recomputed "
                          "\"EQUIVALENT\""));
}

TEST_F(Verify, AcceptsResultsOfAnOlderProgramWithFewerFields) {
  write();
  edit_json("results.json", [](json& results) {
    results.erase("measured_share_ratio");
    for (json& arm : results["arms"]) arm.erase("pooled_step_p99_ns");
    results["arms"][1]["reason"] = "other words";
  });
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(Verify, FindsMissingResults) {
  write();
  fs::remove(path_of("results.json"));
  EXPECT_THAT(problems(), ElementsAre(StartsWith("results.json is missing")));
}

TEST_F(Verify, FindsAChangedBlockByItsHash) {
  write();
  const std::string folder = folder_of("optimizer=fused", 2);
  edit_json("blocks/" + folder + "/block.json",
            [](json& block) { block["steps"]["step_wall_ns"][0] = 969'001; });
  EXPECT_THAT(problems(), Contains(StartsWith("blocks/" + folder + "/block.json was changed")));
}

TEST_F(Verify, FindsAForgedBlockByTheResults) {
  write();
  forge_block(folder_of("optimizer=fused", 2),
              [](json& block) { block["steps"]["step_wall_ns"][0] = 900'000; });
  EXPECT_THAT(problems(), Contains(StartsWith("results.json: arms[1].effect_ratio")));
}

TEST_F(Verify, FindsADamagedBlockAndNamesTheFile) {
  write();
  const std::string name = "blocks/" + folder_of("baseline", 0) + "/block.json";
  const std::string text = read_file(path_of(name));
  write_file_atomically(path_of(name), text.substr(0, text.size() / 2));
  EXPECT_THAT(problems(), Contains(HasSubstr("damaged JSON")));
}

TEST_F(Verify, FindsAHiddenSecondVariable) {
  // All blocks of the arm ran with another weight decay than the plan says.
  builder_.edit_blocks("optimizer=fused",
                       [](BlockRecord& block) { block.config.weight_decay = 0; });
  write();
  EXPECT_THAT(problems(),
              Contains("optimizer=fused claims to be single-variable and is not; it differs in: "
                       "optimizer, weight_decay"));
}

TEST_F(Verify, FindsASecondVariableInThePlan) {
  builder_.manifest().arms[1].config.attention = Attention::kMath;
  builder_.edit_blocks("optimizer=fused",
                       [](BlockRecord& block) { block.config.attention = Attention::kMath; });
  write();
  EXPECT_THAT(problems(), Contains(HasSubstr("differs in: attention, optimizer")));
}

TEST_F(Verify, AcceptsARowThatOwnsUpToManyVariables) {
  builder_.manifest().arms[1].config.attention = Attention::kMath;
  builder_.manifest().arms[1].is_single_variable = false;
  builder_.edit_blocks("optimizer=fused",
                       [](BlockRecord& block) { block.config.attention = Attention::kMath; });
  write();
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(Verify, FindsClocksThatDisagree) {
  for (const int round : {0, 1, 2}) {
    StepArrays& steps = builder_.block("checkpoint=full", round).steps;
    for (const std::int64_t wall_ns : steps.step_wall_ns) {
      steps.step_gpu_ns.push_back(wall_ns * 1025 / 1000);
    }
  }
  write();
  EXPECT_THAT(problems(),
              ElementsAre(AllOf(StartsWith("checkpoint=full, round 0: the sum of step_wall_ns"),
                                EndsWith("allowed is 0.5 % (and in 2 more blocks)"))));
}

TEST_F(Verify, FindsUnequalTokens) {
  builder_.block("optimizer=fused", 6).steps.num_valid_tokens[3] = 1001;
  write();
  EXPECT_THAT(problems(),
              Contains("optimizer=fused, round 6: num_valid_tokens is 4001 against 4000 "
                       "of baseline"));
}

TEST_F(Verify, FindsAnotherOrderThanTheSeedDraws) {
  std::vector<std::string>& order = builder_.manifest().rounds[4].order;
  std::swap(order[0], order[1]);
  write();
  EXPECT_THAT(problems(), Contains(AllOf(StartsWith("round 4: its order ("),
                                         HasSubstr("is not what seed 7 draws"))));
}

TEST_F(Verify, FindsBlocksThatRanInAnotherOrder) {
  const RoundRecord& round = builder_.manifest().rounds[4];
  BlockEntry* first = nullptr;
  BlockEntry* last = nullptr;
  for (BlockEntry& entry : builder_.manifest().blocks) {
    if (entry.round_index == 4 && entry.arm == round.order.front()) first = &entry;
    if (entry.round_index == 4 && entry.arm == round.order.back()) last = &entry;
  }
  std::swap(first->start_s, last->start_s);
  write();
  EXPECT_THAT(problems(), Contains(HasSubstr("against the round's order")));
}

TEST_F(Verify, FindsAnArmThatARoundLeftOut) {
  builder_.manifest().rounds[4].order.pop_back();
  write();
  EXPECT_THAT(problems(), Contains(HasSubstr("is not a permutation of the live arms")));
}

TEST_F(Verify, KnowsThatAFailedArmLeavesLaterRounds) {
  BundleBuilder builder;
  builder.add_arm("optimizer", "fused");
  builder.add_arm("attention", "math");
  for (int r = 0; r < 3; ++r) {
    builder.add_round(
        {{"baseline", 1'000'000}, {"optimizer=fused", 990'000 + r}, {"attention=math", 3'000'000}});
  }
  for (int r = 3; r < 8; ++r) {
    builder.add_round({{"baseline", 1'000'000}, {"optimizer=fused", 990'000 + r}});
  }
  builder.manifest().failed_arms["attention=math"] = "crashed twice";
  builder_ = builder;
  write();
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(Verify, FindsABlockThatIsListedTwice) {
  builder_.manifest().blocks[5].folder = builder_.manifest().blocks[4].folder;
  write();
  EXPECT_THAT(problems(),
              Contains("block " + builder_.manifest().blocks[4].folder + " is listed twice"));
}

TEST_F(Verify, FindsACopiedBlock) {
  write();
  const std::string from = folder_of("optimizer=fused", 1);
  const std::string to = folder_of("optimizer=fused", 2);
  const std::string sha256 = sha256_file_hex(path_of("blocks/" + from + "/block.json"));
  fs::copy_file(path_of("blocks/" + from + "/block.json"), path_of("blocks/" + to + "/block.json"),
                fs::copy_options::overwrite_existing);
  edit_json("manifest.json", [&](json& manifest) {
    for (json& entry : manifest["blocks"]) {
      if (entry["folder"] == to) entry["sha256"] = sha256;
    }
  });
  EXPECT_THAT(problems(),
              Contains("blocks " + from + " and " + to + " are the same, byte by byte"));
}

TEST_F(Verify, FindsAHiddenBlock) {
  write();
  fs::create_directories(path_of("blocks/0099-optimizer-fused"));
  EXPECT_THAT(problems(), ElementsAre("blocks/0099-optimizer-fused is not listed in the manifest"));
}

TEST_F(Verify, IgnoresTheBlockThatAKilledRunWasWriting) {
  write();
  fs::create_directories(path_of("blocks/.tmp-0099-optimizer-fused"));
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(Verify, FindsTwoBlocksOfOneArmInOneRound) {
  BlockRecord& again = builder_.add_block("optimizer=fused", BlockKind::kThroughput, 3, 960'000);
  again.evidence["attempt"] = 2;
  write();
  EXPECT_THAT(problems(), Contains(StartsWith("round 3 has two blocks of optimizer=fused in use")));
}

TEST_F(Verify, FindsOtherNumbersOfStepsThanPlanned) {
  for (const char* arm : {"baseline", "optimizer=fused", "checkpoint=full"}) {
    BlockRecord& block = builder_.block(arm, 0);
    block.warmup = {};
  }
  write();
  EXPECT_THAT(problems(), Contains("optimizer=fused, round 0: 0 warm-up and 4 measured steps, "
                                   "planned were 2 and 4"));
}

TEST_F(Verify, FindsEntriesThatContradictTheirBlock) {
  builder_.manifest().blocks[0].status = BlockStatus::kInvalid;
  write();
  EXPECT_THAT(problems(),
              Contains(HasSubstr("status is invalid in the manifest and ok in block.json")));
}

TEST_F(Verify, ThrowsWhereThereIsNoBundle) { EXPECT_THROW(problems(), ConfigError); }

TEST_F(Verify, FindsADamagedManifest) {
  write();
  write_file_atomically(path_of("manifest.json"), "{\"schema_version\": 1");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("damaged JSON")));
}

// A checkout with one commit, and a bundle below its reports/published/.
class VerifyPublished : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("git --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    git("init --quiet");
    git("-c user.name=t -c user.email=t@example.com -c commit.gpgsign=false "
        "commit --quiet --allow-empty -m first");
    git("rev-parse HEAD > " + (checkout_.path() / "head").string());
    head_ = read_file(checkout_.path() / "head").substr(0, 40);
  }

  std::vector<std::string> problems(const std::string& git_sha, bool is_dirty) {
    BundleBuilder builder = eight_rounds();
    builder.manifest().git_sha = git_sha;
    builder.manifest().is_dirty = is_dirty;
    const fs::path folder = checkout_.path() / "reports" / "published" / "first";
    builder.write(folder);
    return verify(folder);
  }

  void git(const std::string& arguments) const {
    const std::string command = "git -C '" + checkout_.path().string() + "' " + arguments;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  TemporaryFolder checkout_;
  std::string head_;
};

TEST_F(VerifyPublished, WantsCommittedSourcesThatHeadContains) {
  EXPECT_THAT(problems(head_, false), IsEmpty());
  EXPECT_THAT(problems(head_, true), ElementsAre(StartsWith("is_dirty is true")));
  EXPECT_THAT(problems(std::string(40, 'a'), false), ElementsAre(HasSubstr("no ancestor of HEAD")));
  EXPECT_THAT(problems("unknown", false), ElementsAre(HasSubstr("no ancestor of HEAD")));
}

}  // namespace
}  // namespace steplens
