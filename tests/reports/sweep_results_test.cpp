#include "reports/sweep/sweep_results.h"

#include <cmath>

#include "tests/reports/bundle_builder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/temporary_folder.h"
#include "reports/verify_series.h"

namespace steplens {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A matrix of optimizer=fused whose steps take `factor` of the baseline's.
void write_point(const std::filesystem::path& folder, std::int64_t sequence_length, double factor) {
  BundleBuilder builder;
  builder.manifest().baseline.sequence_length = sequence_length;
  builder.manifest().arms.front().config.sequence_length = sequence_length;
  builder.add_arm("optimizer", "fused");
  for (int round = 0; round < 8; ++round) {
    const std::int64_t base_ns = 1'000'000 + 700 * (round % 3);
    builder.add_round({{"baseline", base_ns},
                       {"optimizer=fused", std::llround(factor * 1'000'000) + 500 * (round % 4)}});
  }
  std::filesystem::create_directories(folder);
  builder.write(folder);
}

class SweepFolder : public ::testing::Test {
 protected:
  void write(const std::vector<std::pair<std::int64_t, double>>& points) {
    Sweep sweep{.key = "sequence_length"};
    for (const auto& [length, factor] : points) sweep.values.push_back(std::to_string(length));
    write_json_atomically(folder_.path() / kSweepFileName, to_json(sweep));
    for (const auto& [length, factor] : points) {
      if (factor > 0) {
        write_point(folder_.path() / point_folder(sweep, std::to_string(length)), length, factor);
      }
    }
  }
  TemporaryFolder folder_;
};

TEST_F(SweepFolder, IsVerifiedBundleByBundle) {
  write({{512, 1.05}, {2048, 0.95}, {4096, 0}});  // The last has not begun.
  write_sweep_report(folder_.path());
  EXPECT_THAT(verify_series(folder_.path()), IsEmpty());
  // One step of one block, and what the sweep says of it.
  const std::filesystem::path blocks = folder_.path() / "sequence_length-2048" / "blocks";
  const std::filesystem::path block = std::filesystem::directory_iterator(blocks)->path();
  nlohmann::json json = read_json(block / "block.json");
  json["steps"]["step_wall_ns"][0] = 1'000;
  write_json_atomically(block / "block.json", json);
  const std::vector<std::string> problems = verify_series(folder_.path());
  EXPECT_THAT(problems, Contains(HasSubstr("sequence_length-2048: ")));
  EXPECT_THAT(problems, Not(Contains(HasSubstr("sequence_length-512: "))));
  EXPECT_THAT(problems, Contains(HasSubstr("sweep_results.json: ")));
}

TEST_F(SweepFolder, CannotBeVerifiedBeforeItBegins) {
  write({{512, 0}, {2048, 0}});
  EXPECT_THROW(verify_series(folder_.path()), ConfigError);
}

// 5 % slower at 512, 5 % faster at 2048: log effects are nearly opposite, so they are equal near
// the geometric middle of 512 and 2048.
TEST_F(SweepFolder, FindsWhereAnArmCrossesOver) {
  write({{512, 1.05}, {2048, 0.95}});
  const SweepResults results = compute_sweep(folder_.path());
  ASSERT_EQ(results.crossovers.size(), 1U);
  const SweepCrossover& crossover = results.crossovers.front();
  EXPECT_EQ(crossover.arm, "optimizer=fused");
  EXPECT_TRUE(crossover.becomes_faster);
  const double low = std::log(1 / 1.05);
  const double high = std::log(1 / 0.95);
  const double expected = std::exp(std::log(512) + low / (low - high) * std::log(4));
  EXPECT_NEAR(*crossover.at, expected, 0.02 * expected);
  EXPECT_THAT(crossover_sentences(results).front(), HasSubstr("slower than the baseline at "
                                                              "sequence_length=512 and faster at "
                                                              "2048"));
}

TEST_F(SweepFolder, FindsNoCrossoverWhereASideIsNotProven) {
  write({{512, 1.05}, {1024, 1.0002}, {2048, 0.95}});
  EXPECT_TRUE(compute_sweep(folder_.path()).crossovers.empty())
      << "the middle value is neither slower nor faster";
}

TEST_F(SweepFolder, HasAColumnAValueAndSaysWhatIsNotMeasured) {
  write({{512, 1.05}, {1024, 0}});
  const SweepResults results = compute_sweep(folder_.path());
  const Table table = sweep_effect_table(results);
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_THAT(table.rows[0][1], HasSubstr("-4."));
  EXPECT_EQ(table.rows[0][2], "-");
  EXPECT_FALSE(results.points[1].is_measured);
  EXPECT_THAT(sweep_document(results).baseline, HasSubstr("1024: not measured"));
}

TEST_F(SweepFolder, WritesItsReportWithThePlotInside) {
  write({{512, 1.05}, {1024, 1.01}, {2048, 0.95}});
  write_sweep_report(folder_.path());
  EXPECT_THAT(read_file(folder_.path() / "report.md"), HasSubstr("![Effects"));
  EXPECT_THAT(read_file(folder_.path() / "report.html"), HasSubstr("log scale"));
  const std::string svg = read_file(folder_.path() / kSweepPlot);
  EXPECT_THAT(svg, HasSubstr("optimizer=fused"));
  const nlohmann::json json = read_json(folder_.path() / "sweep_results.json");
  EXPECT_EQ(json["points"].size(), 3U);
}

}  // namespace
}  // namespace steplens
