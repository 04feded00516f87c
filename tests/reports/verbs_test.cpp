#include "reports/verbs.h"

#include <filesystem>
#include <string>
#include <vector>

#include "tests/reports/bundle_builder.h"
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/markdown.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Output {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs the program's report verbs with these words.
Output run(std::vector<std::string> words) {
  CLI::App app("test", "steplens");
  app.require_subcommand(1);
  Output output;
  add_report_verbs(app, output.exit_code);
  std::reverse(words.begin(), words.end());  // As CLI11 takes them from a vector.
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  app.parse(words);
  output.out = testing::internal::GetCapturedStdout();
  output.err = testing::internal::GetCapturedStderr();
  return output;
}

class Verbs : public testing::Test {
 protected:
  void SetUp() override {
    eight_rounds().write(bundle());
    BundleBuilder slower = eight_rounds();
    slower.edit_blocks("optimizer=fused", [](BlockRecord& block) {
      for (std::int64_t& step_ns : block.steps.step_wall_ns) step_ns += 60'000;
    });
    slower.write(slower_bundle());
  }

  fs::path bundle() const { return folder_.path() / "first"; }
  fs::path slower_bundle() const { return folder_.path() / "second"; }

  TemporaryFolder folder_;
};

TEST_F(Verbs, WriteReportLeavesABundleThatVerifies) {
  fs::remove(bundle() / kResultsFileName);
  const Results results = write_report(bundle());
  EXPECT_EQ(results.arms.size(), 3U);
  EXPECT_THAT(verify(bundle()), IsEmpty());
  EXPECT_THAT(read_file(bundle() / kReportFileName),
              HasSubstr("](" + std::string(kEffectsFileName) + ")"));
  EXPECT_THAT(read_file(bundle() / kEffectsFileName), HasSubstr("<svg"));
}

TEST_F(Verbs, ReportPrintsTheTableAndWritesTheDocuments) {
  const Output output = run({"report", bundle().string()});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out, HasSubstr("Fastest: optimizer=fused, +3.08 %"));
  EXPECT_TRUE(fs::exists(bundle() / kReportFileName));
}

TEST_F(Verbs, ReportCanOnlyPrint) {
  EXPECT_EQ(run({"report", "--no-write", bundle().string()}).exit_code, 0);
  EXPECT_FALSE(fs::exists(bundle() / kReportFileName));
}

TEST_F(Verbs, ReportPrintsResultsAsJson) {
  const Output output = run({"report", "--json", bundle().string()});
  EXPECT_EQ(nlohmann::json::parse(output.out)["arms"][1]["verdict"], "FASTER");
}

TEST_F(Verbs, ReportKeepsStoredResultsThatDisagreeUnlessToldOtherwise) {
  nlohmann::json results = read_json(bundle() / kResultsFileName);
  results["arms"][1]["effect_ratio"] = 2.0;
  write_json_atomically(bundle() / kResultsFileName, results);
  const Output output = run({"report", bundle().string()});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.err, HasSubstr("says something else than the blocks"));
  EXPECT_EQ(read_json(bundle() / kResultsFileName)["arms"][1]["effect_ratio"], 2.0);
  EXPECT_THAT(run({"report", "--rewrite-results", bundle().string()}).err, IsEmpty());
  EXPECT_THAT(verify(bundle()), IsEmpty());
}

TEST_F(Verbs, VerifyGivesOneForAProblem) {
  EXPECT_EQ(run({"verify", bundle().string()}).exit_code, 0);
  fs::remove(bundle() / kResultsFileName);
  const Output output = run({"verify", bundle().string()});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.out, HasSubstr("NOT verified, 1 problems"));
  const Output json = run({"verify", "--json", bundle().string()});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(json.out)["is_verified"], false);
}

TEST_F(Verbs, CompareGivesOneForARegression) {
  EXPECT_EQ(run({"compare", bundle().string(), bundle().string()}).exit_code, 0);
  const Output output = run({"compare", bundle().string(), slower_bundle().string()});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.out, HasSubstr("optimizer=fused: verdict FASTER became SLOWER"));
  EXPECT_EQ(
      run({"compare", "--threshold", "0.5", slower_bundle().string(), bundle().string()}).exit_code,
      0);
}

TEST_F(Verbs, ThrowForAFolderThatIsNoBundle) {
  EXPECT_THROW(run({"report", (folder_.path() / "nothing").string()}), ConfigError);
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
}

TEST_F(Verbs, HelpShowsAnExample) {
  CLI::App app;
  int exit_code = 0;
  add_report_verbs(app, exit_code);
  for (const char* verb : {"report", "verify", "compare"}) {
    EXPECT_THAT(app.get_subcommand(verb)->help(), HasSubstr("Example: steplens ")) << verb;
  }
}

}  // namespace
}  // namespace steplens
