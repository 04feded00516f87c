#include "tests/cli/cli_world.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/advice/rules.h"
#include "workloads/catalog/toggles.h"

namespace steplens {
namespace {

using testing::HasSubstr;
using testing_support::CliResult;
using testing_support::CliWorld;

std::string published(const std::string& name) {
  return std::string(STEPLENS_SOURCE_DIR) + "/reports/published/" + name;
}

nlohmann::json findings_of(CliWorld& world, const std::string& arm) {
  const CliResult result =
      world.run({"advise", published("h200-gpt2-124m-toggles"), "--arm", arm, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out).at(0).at("findings");
}

std::vector<std::string> rules_of(const nlohmann::json& findings) {
  std::vector<std::string> rules;
  for (const nlohmann::json& finding : findings) rules.push_back(finding.at("rule"));
  return rules;
}

// What the published matrix has measured is what the advice for its baseline suggests.
TEST(Advise, FindsInAPublishedBaselineWhatItsMatrixHasProven) {
  CliWorld world;
  const nlohmann::json findings = findings_of(world, "baseline");
  EXPECT_THAT(rules_of(findings), testing::IsSupersetOf({"memory_bound", "attention_share",
                                                         "unfused_optimizer", "kernel_gaps"}));
  for (const nlohmann::json& finding : findings) {
    // That matrix is older than the compiled arm.
    if (finding["toggle"].is_null() || finding["toggle"] == "compile") continue;
    EXPECT_THAT(finding["measured"].get<std::string>(), HasSubstr("FASTER"))
        << finding["rule"] << ": its switch is an arm of the same matrix";
    EXPECT_EQ(finding["is_refuted"], false);
  }
}

// A bound that a measurement exceeds is none.
TEST(Advise, NoMeasuredGainExceedsItsBound) {
  CliWorld world;
  const nlohmann::json results = read_json(published("h200-gpt2-124m-toggles") + "/results.json");
  for (const nlohmann::json& finding : findings_of(world, "baseline")) {
    if (finding["toggle"].is_null() || finding["max_gain_ratio"].is_null()) continue;
    const std::string arm =
        finding["toggle"].get<std::string>() + "=" + finding["level"].get<std::string>();
    for (const nlohmann::json& row : results["arms"]) {
      if (row["name"] != arm) continue;
      EXPECT_LE(row["effect_ratio"].get<double>(), finding["max_gain_ratio"].get<double>()) << arm;
    }
  }
}

TEST(Advise, FindsWhatEachPublishedArmSuffersFrom) {
  CliWorld world;
  EXPECT_THAT(rules_of(findings_of(world, "attention=math")),
              testing::IsSupersetOf({"unfused_attention", "idle_tensor_cores"}));
  EXPECT_THAT(rules_of(findings_of(world, "accumulation=4")),
              testing::IsSupersetOf({"launch_bound", "memory_to_spare"}));
  EXPECT_THAT(rules_of(findings_of(world, "checkpoint=full")),
              testing::Contains("needless_recompute"));
  EXPECT_THAT(rules_of(findings_of(world, "sync_every_micro_step=on")),
              testing::Contains("waiting_calls"));
}

// The catalog is another folder: what advice suggests must exist there.
TEST(Advise, SuggestsSwitchesOfTheCatalog) {
  CliWorld world;
  const CliResult result =
      world.run({"advise", published("h200-gpt2-124m-toggles"), "--arm", "all", "--json"});
  int num_switches = 0;
  for (const nlohmann::json& arm : nlohmann::json::parse(result.out)) {
    for (const nlohmann::json& finding : arm["findings"]) {
      if (finding["toggle"].is_null()) continue;
      const Toggle* toggle = find_toggle(all_toggles(), finding["toggle"].get<std::string>());
      ASSERT_NE(toggle, nullptr) << finding["toggle"];
      EXPECT_NE(find_level(*toggle, finding["level"].get<std::string>()), nullptr)
          << finding["level"];
      ++num_switches;
    }
  }
  EXPECT_GT(num_switches, 15) << "15 arms, each with something to try";
}

TEST(Advise, ReadsALoneTrace) {
  CliWorld world;
  const CliResult result =
      world.run({"advise", published("h200-gpt2-124m-toggles/blocks/0107-trace-attention-math")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Attention is not fused"));
}

TEST(Advise, NamesWhatItCannotUse) {
  CliWorld world;
  EXPECT_THAT(world.run({"advise", "nowhere"}).err, HasSubstr("nowhere: does not exist"));
  const CliResult arm = world.run({"advise", published("h200-gpt2-124m-toggles"), "--arm", "x"});
  EXPECT_EQ(arm.exit_code, 2);
  EXPECT_THAT(arm.err, HasSubstr("arm: 'x' is unknown; allowed: all, baseline"));
}

}  // namespace
}  // namespace steplens
