// Two ranks against one, over the real transport.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/workloads/parallel_steps.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/ranks/launch.h"
#include "workloads/attention.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNumSteps = 20;

// What the ranks of parallel_program left.
struct Outcome {
  std::vector<std::vector<double>> parameters;  // By rank.
  std::vector<std::int64_t> all_reduces_per_step;
};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    square += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(square / norm);
}

class TwoRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    RunConfig config = tiny_config();
    force_attention(config.attention);
    TrainStep train_step(config, kNumSteps);
    for (const DeviceStep& step : make_world_steps(config, kNumSteps)) train_step.run(step);
    const std::vector<float> values = flat_parameters(train_step.model());
    one_rank_ = std::vector<double>(values.begin(), values.end());
  }
  void SetUp() override {
    try {
      launcher_ = find_rank_launcher(Device::kCpu, 2, {});
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
    folder_ = fs::temp_directory_path() / fmt::format("steplens-parallel-{}", ::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome run(const char* no_sync, const char* fault) const {
    const ProcessSpec one{.command = {STEPLENS_PARALLEL_PROGRAM_PATH, folder_.string(),
                                      fmt::format("{}", kNumSteps), no_sync, fault},
                          .environment = {{"OMP_NUM_THREADS", "1"}},
                          .timeout_s = 300};
    const ProcessResult result = run_process(rank_processes(launcher_, one, 2).front());
    EXPECT_EQ(result.end, ProcessEnd::kExited);
    EXPECT_EQ(result.exit_code, 0) << fmt::format("{}", fmt::join(result.last_lines, "\n"));
    Outcome outcome;
    for (int rank = 0; rank < 2; ++rank) {
      const nlohmann::json json = read_json(folder_ / fmt::format("result.{}.json", rank));
      outcome.parameters.push_back(json.at("parameters").get<std::vector<double>>());
      outcome.all_reduces_per_step.push_back(json.at("all_reduces_per_step").get<std::int64_t>());
    }
    return outcome;
  }

  static inline std::vector<double> one_rank_;
  RankLauncher launcher_;
  fs::path folder_;
};

TEST_F(TwoRanks, EqualOneRankOfTwiceTheBatch) {
  const Outcome outcome = run("off", "none");
  EXPECT_EQ(outcome.parameters[0], outcome.parameters[1]) << "bit for bit";
  EXPECT_LT(distance(outcome.parameters[0], one_rank_), 1e-5);
  EXPECT_EQ(outcome.all_reduces_per_step[0], 4) << "one bucket, in each of four micro-steps";
}

TEST_F(TwoRanks, EqualItWithNoSyncToo) {
  const Outcome outcome = run("on", "none");
  EXPECT_EQ(outcome.parameters[0], outcome.parameters[1]) << "bit for bit";
  EXPECT_LT(distance(outcome.parameters[0], one_rank_), 1e-5);
  EXPECT_EQ(outcome.all_reduces_per_step[0], 1);
}

// A comparison that planted faults pass would prove nothing.
TEST_F(TwoRanks, DifferIfOnlyTheFirstMicroStepSynchronises) {
  const Outcome outcome = run("on", "sync_first");
  EXPECT_NE(outcome.parameters[0], outcome.parameters[1]);
  EXPECT_GT(distance(outcome.parameters[0], one_rank_), 1e-3);
}

TEST_F(TwoRanks, DifferIfTheLastMicroStepIsInNoSyncToo) {
  const Outcome outcome = run("on", "never_sync");
  EXPECT_NE(outcome.parameters[0], outcome.parameters[1]);
  EXPECT_GT(distance(outcome.parameters[0], one_rank_), 1e-3);
}

TEST_F(TwoRanks, DifferIfEachRankTakesItsOwnMean) {
  const Outcome outcome = run("on", "mean_of_ranks");
  EXPECT_GT(distance(outcome.parameters[0], one_rank_), 1e-3);
}

// The maths is right then, and nothing is saved: the count shows it.
TEST_F(TwoRanks, ReduceInEveryMicroStepIfTheForwardPassIsOutsideOfNoSync) {
  const Outcome outcome = run("on", "always_sync");
  EXPECT_LT(distance(outcome.parameters[0], one_rank_), 1e-5);
  EXPECT_EQ(outcome.all_reduces_per_step[0], 4);
}

}  // namespace
}  // namespace steplens
