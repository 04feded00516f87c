// Two ranks against one, over the real transport.

#include <cmath>
#include <filesystem>
#include <iterator>
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
#include "workloads/evidence.h"
#include "workloads/parallel/gradient_reducer.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNumSteps = 20;

// What the ranks of parallel_program left.
struct Outcome {
  std::vector<std::vector<double>> parameters;  // By rank.
  std::vector<std::int64_t> all_reduces_per_step;
  std::vector<std::int64_t> all_reduce_bytes;  // Of rank 0's last full step.
  std::int64_t num_late = 0;                   // All-reduces sent behind a backward pass.
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

  // `settings`: KEY=VALUE of the config.
  Outcome run(const char* fault, const std::vector<std::string>& settings = {}) const {
    // Where rank 0 of an earlier run listened would lead rank 1 astray.
    fs::remove(folder_ / kRendezvousFileName);
    ProcessSpec one{.command = {STEPLENS_PARALLEL_PROGRAM_PATH, folder_.string(),
                                fmt::format("{}", kNumSteps), fault},
                    .environment = {{"OMP_NUM_THREADS", "1"}},
                    .timeout_s = 300};
    one.command.insert(one.command.end(), settings.begin(), settings.end());
    const ProcessResult result = run_process(rank_processes(launcher_, one, 2).front());
    EXPECT_EQ(result.end, ProcessEnd::kExited);
    EXPECT_EQ(result.exit_code, 0) << fmt::format("{}", fmt::join(result.last_lines, "\n"));
    Outcome outcome;
    for (int rank = 0; rank < 2; ++rank) {
      const nlohmann::json json = read_json(folder_ / fmt::format("result.{}.json", rank));
      outcome.parameters.push_back(json.at("parameters").get<std::vector<double>>());
      outcome.all_reduces_per_step.push_back(json.at("all_reduces_per_step").get<std::int64_t>());
      if (rank > 0) continue;
      outcome.all_reduce_bytes = json.at("all_reduce_bytes").get<std::vector<std::int64_t>>();
      outcome.num_late = json.at("num_late").get<std::int64_t>();
    }
    return outcome;
  }

  static inline std::vector<double> one_rank_;
  RankLauncher launcher_;
  fs::path folder_;
};

TEST_F(TwoRanks, EqualOneRankOfTwiceTheBatch) {
  const Outcome outcome = run("none");
  EXPECT_EQ(outcome.parameters[0], outcome.parameters[1]) << "bit for bit";
  EXPECT_LT(distance(outcome.parameters[0], one_rank_), 1e-5);
  EXPECT_EQ(outcome.all_reduces_per_step[0], 4) << "one bucket, in each of four micro-steps";
}

TEST_F(TwoRanks, EqualItWithNoSyncToo) {
  const Outcome outcome = run("none", {"no_sync=on"});
  EXPECT_EQ(outcome.parameters[0], outcome.parameters[1]) << "bit for bit";
  EXPECT_LT(distance(outcome.parameters[0], one_rank_), 1e-5);
  EXPECT_EQ(outcome.all_reduces_per_step[0], 1);
}

// A comparison that planted faults pass would prove nothing.
TEST_F(TwoRanks, DifferIfOnlyTheFirstMicroStepSynchronises) {
  const Outcome outcome = run("sync_first", {"no_sync=on"});
  EXPECT_NE(outcome.parameters[0], outcome.parameters[1]);
  EXPECT_GT(distance(outcome.parameters[0], one_rank_), 1e-3);
}

TEST_F(TwoRanks, DifferIfTheLastMicroStepIsInNoSyncToo) {
  const Outcome outcome = run("never_sync", {"no_sync=on"});
  EXPECT_NE(outcome.parameters[0], outcome.parameters[1]);
  EXPECT_GT(distance(outcome.parameters[0], one_rank_), 1e-3);
}

TEST_F(TwoRanks, DifferIfEachRankTakesItsOwnMean) {
  const Outcome outcome = run("mean_of_ranks", {"no_sync=on"});
  EXPECT_GT(distance(outcome.parameters[0], one_rank_), 1e-3);
}

// The maths is right then, and nothing is saved: the count shows it.
TEST_F(TwoRanks, ReduceInEveryMicroStepIfTheForwardPassIsOutsideOfNoSync) {
  const Outcome outcome = run("always_sync", {"no_sync=on"});
  EXPECT_LT(distance(outcome.parameters[0], one_rank_), 1e-5);
  EXPECT_EQ(outcome.all_reduces_per_step[0], 4);
}

// Gradients that travel in 16 bits: half of the bytes, the same maths as far as they round.
TEST_F(TwoRanks, AgreeInSixteenBitsAsFarAsTheseRound) {
  const std::vector<std::int64_t> full = run("none").all_reduce_bytes;
  for (const char* type : {"comm_dtype=bf16", "comm_dtype=fp16"}) {
    const Outcome outcome = run("none", {type});
    EXPECT_EQ(outcome.parameters[0], outcome.parameters[1]) << type << ": bit for bit";
    EXPECT_LT(distance(outcome.parameters[0], one_rank_), 1e-2) << type;
    EXPECT_GT(distance(outcome.parameters[0], one_rank_), 1e-7) << type << " rounds nothing";
    ASSERT_EQ(outcome.all_reduce_bytes.size(), full.size()) << type;
    for (std::size_t i = 0; i < full.size(); ++i) {
      EXPECT_EQ(2 * outcome.all_reduce_bytes[i], full[i]) << type;
    }
  }
}

// Several buckets, so that one that is full early has to wait.
TEST_F(TwoRanks, TrainTheSameIfNothingIsSentBeforeTheBackwardPassIsOver) {
  const std::vector<std::string> settings = {"vocab_size=70000", "bucket_mb=1"};
  const Outcome during = run("none", settings);
  const Outcome after = run("none", {settings[0], settings[1], "overlap=off"});
  EXPECT_GE(during.all_reduce_bytes.size(), 8u) << "two buckets or more in four micro-steps";
  EXPECT_EQ(after.all_reduce_bytes, during.all_reduce_bytes);
  EXPECT_EQ(after.parameters[0], during.parameters[0]) << "halves are exact in both";
  EXPECT_EQ(during.num_late, 0);
  // The first step has one bucket, a micro-step that is: buckets are rebuilt before the second.
  EXPECT_GE(after.num_late, std::ssize(after.all_reduce_bytes) * (kNumSteps - 1) * 3 / 4);
}

TEST_F(TwoRanks, DeferredSixteenBitsAreThoseSentAtOnce) {
  const Outcome during = run("none", {"comm_dtype=fp16"});
  const Outcome after = run("none", {"comm_dtype=fp16", "overlap=off"});
  // c10d's own hook against ours.
  EXPECT_EQ(after.parameters[0], during.parameters[0]);
}

// One rank whose gradients go through the Reducer, which sends them to nobody.
TEST(LoneRank, TrainsThroughTheReducerBitForBit) {
  RunConfig config = tiny_config();
  config.reducer = ReducerUse::kAlways;
  force_attention(config.attention);
  const std::vector<DeviceStep> steps = make_world_steps(config, kNumSteps);
  const auto train = [&](GradientSync* sync, TrainStep& train_step) {
    if (sync != nullptr) train_step.synchronize_with(*sync);
    for (const DeviceStep& step : steps) train_step.run(step);
    return flat_parameters(train_step.model());
  };
  TrainStep alone(config, kNumSteps);
  const std::vector<float> expected = train(nullptr, alone);

  const fs::path folder = fs::temp_directory_path() / fmt::format("steplens-lone-{}", ::getpid());
  fs::create_directories(folder);
  const auto world = World::join(
      {.config = config, .world_size = 1, .collective_timeout_s = 60, .output_folder = folder}, {});
  TrainStep reduced(config, kNumSteps);
  std::vector<at::Tensor> parameters;
  for (const Parameter& parameter : reduced.model().parameters()) {
    parameters.push_back(parameter.value);
  }
  GradientReducer reducer(config, parameters, *world);
  const OperatorCounter counter;
  EXPECT_EQ(train(&reducer, reduced), expected);
  EXPECT_GT(counter.counts()["c10d::allreduce_"], 0) << "else nothing went through it";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace steplens
