#include "reports/export/bundle_formats.h"

#include <cmath>
#include <sstream>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/trace_verbs.h"

namespace steplens {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The whole formats are read by the rules of their readers in tests/scripts/export_formats_test.py.

class BundleFormats : public testing::Test {
 protected:
  BundleFormats() {
    eight_rounds().write(folder_.path() / "bundle");
    bundle_ = open_bundle(folder_.path() / "bundle");
    results_ = compute_results(bundle_);
  }
  std::string text_of(void (*write)(const std::filesystem::path&, const Bundle&, const Results&)) {
    const std::filesystem::path path = folder_.path() / "out";
    write(path, bundle_, results_);
    return read_file(path);
  }

  TemporaryFolder folder_;
  Bundle bundle_;
  Results results_;
};

TEST_F(BundleFormats, MllogHasTimesOfTheBlocks) {
  std::istringstream lines(text_of(write_mllog));
  std::vector<json> entries;
  for (std::string line; std::getline(lines, line);) {
    ASSERT_THAT(line, StartsWith(":::MLLOG {\"namespace\":\"\",\"time_ms\":"));
    entries.push_back(json::parse(line.substr(9)));
  }
  // 2026-01-02T03:04:05Z; block 1 began 10 s later and took 8 s.
  EXPECT_EQ(entries[0]["time_ms"], 1'767'323'045'000);
  std::vector<json> second;
  for (const json& entry : entries) {
    if (entry["metadata"]["file"] == "blocks/" + bundle_.manifest.blocks[1].folder + "/block.json")
      second.push_back(entry);
  }
  ASSERT_EQ(second.size(), 3U);
  EXPECT_EQ(second[0]["key"], "block_start");
  EXPECT_EQ(second[0]["time_ms"], 1'767'323'055'000);
  EXPECT_EQ(second[1]["key"], "tracked_stats");
  EXPECT_DOUBLE_EQ(second[1]["value"]["throughput"], valid_tokens_per_s(bundle_.blocks[1]));
  EXPECT_EQ(second[2]["time_ms"], 1'767'323'063'000);
}

TEST_F(BundleFormats, BenchmarkHasCpuTimeByTheSamplersShare) {
  bundle_.blocks[0].samples = {{"cpu_time_ns", 300}, {"duration_ns", 400}};
  const json document = json::parse(text_of(write_benchmark_json));
  const double step_ns = mean_step_wall_ns(bundle_.blocks[0]);
  for (const json& row : document["benchmarks"]) {
    if (row["run_name"] != "nano/" + bundle_.blocks[0].arm || row["run_type"] != "iteration")
      continue;
    const bool is_first = row["repetition_index"] == 0;
    EXPECT_DOUBLE_EQ(row["cpu_time"], is_first ? 0.75 * step_ns : row["real_time"].get<double>());
    EXPECT_EQ(row["iterations"], BundleBuilder::kNumMeasuredSteps);
    EXPECT_DOUBLE_EQ(row["items_per_second"].get<double>(),
                     1e9 * BundleBuilder::kTokensPerStep / row["real_time"].get<double>());
  }
  // Mean of eight step times of `base`, worked out by hand.
  EXPECT_EQ(document["benchmarks"][8]["name"], "nano/baseline_mean");
  EXPECT_DOUBLE_EQ(document["benchmarks"][8]["real_time"], 1'000'937.5);
}

TEST_F(BundleFormats, CsvQuotesWhatItMust) {
  results_.arms[1].reason = "a \"quoted\", long reason";
  const std::string text = text_of(write_results_csv);
  EXPECT_THAT(text, StartsWith("name,"));
  EXPECT_THAT(text, HasSubstr("\"a \"\"quoted\"\", long reason\""));
  EXPECT_THAT(text, testing::EndsWith("\r\n"));
}

TEST_F(BundleFormats, ExportVerbWritesThemAndNamesThem) {
  EXPECT_EQ(export_verb({.input = bundle_.folder, .format = "benchmark"}), 0);
  EXPECT_TRUE(std::filesystem::exists(bundle_.folder / "benchmark.json"));
  try {
    export_verb({.input = bundle_.folder, .format = "chrome"});
    FAIL() << "a bundle is no trace";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "format: 'chrome' is none for a bundle; name one with --format csv|mllog|benchmark");
  }
}

}  // namespace
}  // namespace steplens
