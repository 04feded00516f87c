#include "reports/verbs.h"

#include <filesystem>
#include <string>
#include <vector>

#include "tests/reports/bundle_builder.h"
#include "tests/reports/trace_builder.h"
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/trace/trace_writer.h"
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

// One step of 2 ms on the device, in which the SMs are active for 60 % of the time.
Trace counters_trace() {
  TraceBuilder builder;
  Trace& trace = builder.trace();
  trace.info = {
      {"kind", "counters"}, {"arm", "baseline"}, {"hardware_counters", {"sm_active", "pcie_read"}}};
  trace.steps = {{.start_ns = 0, .end_ns = 1'000'000}};
  builder.kernel("k", 100'000, 2'100'000, 0, "step/forward");
  trace.counter_tracks = {{.name = builder.text("sm_active"), .unit = builder.text("ratio")},
                          {.name = builder.text("pcie_read"),
                           .unit = builder.text("ratio"),
                           .absent_reason = builder.text("no room")}};
  trace.counter_samples = {{.time_ns = 500'000, .value = 0.4, .track = 0},
                           {.time_ns = 600'000, .value = 0.8, .track = 0}};
  return trace;
}

TEST_F(Verbs, ReportShowsTheCountersOfEachArmsBlock) {
  BundleBuilder builder = eight_rounds();
  builder.add_block("baseline", BlockKind::kCounters, -1, 1'000'000);
  const fs::path folder = folder_.path() / "counters";
  builder.write(folder);
  write_trace(folder / "blocks" / builder.manifest().blocks.back().folder / kTraceFileName,
              counters_trace());
  const Output output = run({"report", folder.string()});
  EXPECT_EQ(output.err, "");
  EXPECT_THAT(output.out, HasSubstr("60.0 % (p95 78.0 %)"));
  const std::string report = read_file(folder / kReportFileName);
  // 2 ms against the baseline's 1.001 ms.
  EXPECT_THAT(report, HasSubstr("| baseline | 60.0 % (p95 78.0 %) | 1.998 |"));
  EXPECT_THAT(report, HasSubstr("baseline: pcie read not available: no room"));
}

TEST_F(Verbs, PrintTraceShowsCounters) {
  const fs::path path = folder_.path() / "trace.slt";
  write_trace(path, counters_trace());
  testing::internal::CaptureStdout();
  EXPECT_EQ(print_trace(path, /*is_json=*/false), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("60.0 % (p95 78.0 %)"));
  EXPECT_THAT(text, HasSubstr("pcie read not available: no room"));
  testing::internal::CaptureStdout();
  print_trace(path, /*is_json=*/true);
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_NEAR(json.at("hardware_counters").at(0).at("mean").get<double>(), 0.6, 1e-12);
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
  for (const std::string verb : {"report", "verify", "compare", "history", "export", "import"}) {
    const std::string help = app.get_subcommand(verb)->help();
    EXPECT_THAT(help.substr(std::min(help.find("Example"), help.size())),
                HasSubstr(" steplens " + verb + " "));
  }
}

}  // namespace
}  // namespace steplens
