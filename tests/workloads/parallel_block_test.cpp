// Blocks of two ranks, run by the real worker as a matrix runs them.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "tests/workloads/tiny_config.h"
#include "tests/workloads/words_file.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/block_runner.h"
#include "harness/error.h"
#include "harness/files.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/rank_progress.h"
#include "harness/trace/merge_ranks.h"
#include "reports/communication/communication.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Within a second: the kernel kills ranks that their launcher left behind. A zombie only waits for
// init.
bool is_gone(int process_id) {
  for (int i = 0; i < 100; ++i) {
    std::ifstream status(fmt::format("/proc/{}/status", process_id));
    std::string line;
    std::string state;
    while (std::getline(status, line)) {
      if (line.starts_with("State:")) state = line;
    }
    if (state.empty() || state.find("zombie") != std::string::npos) return true;
    ::usleep(10'000);
  }
  return false;
}

class ParallelBlock : public testing::Test {
 protected:
  void SetUp() override {
    try {
      launcher_ = find_rank_launcher(Device::kCpu, 2, {});
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
    root_ = fs::temp_directory_path() / fmt::format("steplens-parallel-block-{}", ::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_);
    data_path_ = write_words_file(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  BlockConfig block(const RunConfig& config, BlockKind kind = BlockKind::kThroughput) {
    const fs::path folder = root_ / fmt::format("block{}", num_blocks_++);
    fs::create_directories(folder);
    return {.config = config,
            .seed = config.seed,
            .kind = kind,
            .arm = "arm",
            .round_index = 0,
            .world_size = static_cast<int>(config.world_size),
            .num_warmup_steps = kind == BlockKind::kPilot ? 20 : 2,
            .num_measured_steps = 6,
            .timeout_s = 120,
            .collective_timeout_s = 60,
            .data_path = data_path_,
            .output_folder = folder};
  }

  ProcessSpec spec_of(const BlockConfig& block) const {
    const fs::path path = block.output_folder / "block_config.json";
    write_json_atomically(path, to_json(block));
    return {.command = {STEPLENS_WORKER_PATH},
            .environment = {{"STEPLENS_BLOCK_CONFIG", path.string()}, {"OMP_NUM_THREADS", "1"}},
            .timeout_s = block.timeout_s};
  }

  // Calls `at_step` once for rank 1 in its step `num_steps`.
  BlockRecord run(const BlockConfig& block, std::int64_t num_steps = 0,
                  const std::function<void(int process_id)>& at_step = {}) {
    bool was_called = false;
    const auto look = [&] {
      const RankReport report = read_rank_reports(block.output_folder, 2)[1];
      if (at_step && !was_called && report.num_steps >= num_steps) {
        was_called = true;
        at_step(report.process_id);
      }
      return StopRequest::kNone;
    };
    const ProcessSpec spec = spec_of(block);
    if (block.world_size == 1) {
      return judge_block(block, run_process(spec), block.output_folder / "block.json").record;
    }
    const ProcessResult result = run_process(rank_processes(launcher_, spec, 2).front(), look);
    for (const RankReport& report : read_rank_reports(block.output_folder, 2)) {
      EXPECT_TRUE(is_gone(report.process_id)) << "rank " << report.rank << " is an orphan";
    }
    return judge_ranks(block, result, block.output_folder / "block.json").record;
  }

  RunConfig two_ranks() const {
    RunConfig config = tiny_config();
    config.world_size = 2;
    config.num_accumulation = 2;
    return config;
  }

  RankLauncher launcher_;
  fs::path root_;
  fs::path data_path_;
  int num_blocks_ = 0;
};

TEST_F(ParallelBlock, HoldsTheNumbersOfTheWorld) {
  RunConfig one = two_ranks();
  one.world_size = 1;
  const BlockRecord alone = run(block(one));
  ASSERT_EQ(alone.status, BlockStatus::kOk) << alone.reason;
  const BlockConfig both = block(two_ranks());
  const BlockRecord record = run(both);
  ASSERT_EQ(record.status, BlockStatus::kOk) << record.reason;
  EXPECT_EQ(record.world_size, 2);
  EXPECT_EQ(record.rank, 0);
  EXPECT_EQ(record.data_set_hash, alone.data_set_hash);
  EXPECT_EQ(record.data_hash, alone.data_hash);
  EXPECT_EQ(record.weights_hash, alone.weights_hash);
  ASSERT_EQ(record.steps.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(record.steps.num_positions[i], 32);  // 4 rows of 8 over both ranks.
    EXPECT_EQ(record.steps.num_valid_tokens[i], alone.steps.num_valid_tokens[i]);
    EXPECT_NEAR(record.steps.loss[i] / alone.steps.loss[i], 1, 1e-5);
    EXPECT_NEAR(record.steps.grad_norm[i] / alone.steps.grad_norm[i], 1, 1e-4);
  }
  const nlohmann::json& ranks = record.evidence.at("ranks");
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].at("num_valid_tokens").get<int>() + ranks[1].at("num_valid_tokens").get<int>(),
            std::accumulate(record.steps.num_valid_tokens.begin(),
                            record.steps.num_valid_tokens.end(), std::int64_t{0}));
  EXPECT_NE(ranks[0].at("data_hash"), ranks[1].at("data_hash"));
  const BlockRecord other = read_block_record(both.output_folder / "block.rank1.json");
  EXPECT_EQ(other.rank, 1);
  EXPECT_EQ(other.steps.num_positions[0], 16) << "its own share";
  EXPECT_EQ(other.final_weights_hash, record.final_weights_hash);
}

TEST_F(ParallelBlock, PilotCountsAllReducesOfAStep) {
  RunConfig config = two_ranks();
  const BlockRecord off = run(block(config, BlockKind::kPilot));
  ASSERT_EQ(off.status, BlockStatus::kOk) << off.reason;
  EXPECT_EQ(off.evidence.at("counters").at("c10d::allreduce_"), 2);
  config.no_sync = true;
  const BlockRecord on = run(block(config, BlockKind::kPilot));
  ASSERT_EQ(on.status, BlockStatus::kOk) << on.reason;
  EXPECT_EQ(on.evidence.at("counters").at("c10d::allreduce_"), 1);
}

TEST_F(ParallelBlock, TracesOfBothRanksShareAClockAndHoldTheAllReduces) {
  RunConfig config = two_ranks();
  const BlockConfig traced = block(config, BlockKind::kTrace);
  const BlockRecord record = run(traced);
  ASSERT_EQ(record.status, BlockStatus::kOk) << record.reason;
  const Trace trace = read_rank_traces(traced.output_folder / kTraceFileName);
  ASSERT_EQ(num_ranks(trace), 2);
  const nlohmann::json& second = trace.info.at(std::string(kRanksKey)).at(1);
  // Both ran here, by one clock.
  const auto uncertainty_ns = second.at(std::string(kClockUncertaintyKey)).get<std::int64_t>();
  EXPECT_GT(uncertainty_ns, 0);
  EXPECT_LE(std::abs(second.at(std::string(kClockOffsetKey)).get<std::int64_t>()), uncertainty_ns);
  const CommunicationUse use = compute_communication(trace);
  ASSERT_EQ(use.ranks.size(), 2u);
  for (const RankCommunication& rank : use.ranks) {
    EXPECT_DOUBLE_EQ(rank.num_collectives, 2) << "one bucket, in each of two micro-steps";
    EXPECT_GT(rank.communication_ns, 0);
    EXPECT_LE(rank.exposed_ns, rank.communication_ns);
  }
  EXPECT_TRUE(use.start_skew_ns.has_value());
}

TEST_F(ParallelBlock, NamesTheRankThatDied) {
  BlockConfig config = block(two_ranks());
  config.num_measured_steps = 1'000'000;
  const BlockRecord record = run(config, 3, [](int process_id) { ::kill(process_id, SIGKILL); });
  EXPECT_EQ(record.status, BlockStatus::kCrash);
  EXPECT_THAT(record.reason, HasSubstr("rank 1 died in step"));
}

TEST_F(ParallelBlock, NamesTheRankThatHangsWithinTheTimeLimit) {
  BlockConfig config = block(two_ranks());
  config.num_measured_steps = 1'000'000;
  config.collective_timeout_s = 3;
  const BlockRecord record = run(config, 3, [](int process_id) { ::kill(process_id, SIGSTOP); });
  EXPECT_EQ(record.status, BlockStatus::kCrash);
  EXPECT_THAT(record.reason, HasSubstr("rank 1 did not go on in step"));
  EXPECT_THAT(record.reason, HasSubstr("rank 0 waited 3 s for the other ranks in all-reduce"));
}

TEST_F(ParallelBlock, SaysThatTheWorldHasAnotherSize) {
  BlockConfig config = block(two_ranks());
  ProcessSpec spec = rank_processes(launcher_, spec_of(config), 3).front();
  const ProcessResult result = run_process(spec);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(
      result.last_lines,
      testing::Contains(HasSubstr("world_size=2: the block is for 2 ranks, and mpirun started 3")));
}

TEST_F(ParallelBlock, SaysThatThePortIsBusy) {
  BlockConfig config = block(two_ranks());
  ProcessSpec spec = spec_of(config);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const int port = ntohs(address.sin_port);
  spec.environment.emplace_back("MASTER_ADDR", "127.0.0.1");
  spec.environment.emplace_back("MASTER_PORT", std::to_string(port));
  const ProcessResult result = run_process(rank_processes(launcher_, spec, 2).front());
  ::close(fd);
  EXPECT_THAT(judge_ranks(config, result, config.output_folder / "block.json").record.reason,
              HasSubstr(fmt::format("MASTER_PORT={}: rank 0 cannot listen there", port)));
}

}  // namespace
}  // namespace steplens
