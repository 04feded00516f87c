// The whole way of a trace on a CPU: the worker, its NVTX ranges, libsteplens_inject.so, trace.slt.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/workloads/tiny_config.h"
#include "tests/workloads/words_file.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/block.h"
#include "harness/files.h"
#include "harness/process.h"
#include "harness/temporary_folder.h"
#include "harness/trace/trace_reader.h"
#include "reports/breakdown/breakdown.h"
#include "reports/breakdown/modules.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::IsEmpty;

constexpr int kNumLayers = 2;  // Of the tiny model.
constexpr int kNumSteps = 3;

class TracedBlock : public ::testing::Test {
 protected:
  static RunConfig config() { return tiny_config(); }

  // Runs one traced block in the real worker and reads both of its files.
  void run(const RunConfig& config, BlockKind kind = BlockKind::kTrace) {
    const BlockConfig block{.config = config,
                            .seed = config.seed,
                            .kind = kind,
                            .arm = "arm",
                            .num_warmup_steps = 2,
                            .num_measured_steps = kNumSteps,
                            .data_path = write_words_file(folder_),
                            .output_folder = folder_};
    write_json_atomically(folder_ / "block_config.json", to_json(block));
    const ProcessResult process = run_process(
        {.command = {STEPLENS_WORKER_PATH},
         .environment = {{"STEPLENS_BLOCK_CONFIG", (folder_ / "block_config.json").string()}},
         .timeout_s = 120},
        [] { return StopRequest::kNone; });
    ASSERT_EQ(process.end, ProcessEnd::kExited);
    ASSERT_EQ(process.exit_code, 0)
        << (process.last_lines.empty() ? "" : process.last_lines.back());
    record_ = read_block_record(folder_ / "block.json");
    ASSERT_EQ(record_.status, BlockStatus::kOk) << record_.reason;
    trace_ = read_trace(folder_ / kTraceFileName);
  }

  double counter(const char* name) const {
    return record_.evidence.at("trace_counters").value(name, 0.0);
  }

  // Modules in which operators of a phase ran.
  std::set<std::string> modules(Phase phase) const {
    const std::vector<std::string> paths = module_paths(trace_);
    std::set<std::string> result;
    for (const GpuOp& op : trace_.gpu_ops) {
      if (op.phase == phase && op.range != kNoRow) result.insert(paths[op.range]);
    }
    return result;
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  BlockRecord record_;
  Trace trace_;
};

TEST_F(TracedBlock, HoldsTheMeasuredStepsWithEveryOperatorUnderItsModule) {
  run(config());
  ASSERT_EQ(trace_.steps.size(), static_cast<std::size_t>(kNumSteps));
  EXPECT_EQ(trace_.steps.front().first_step_number, 2);  // The warm-up is not in it.
  EXPECT_EQ(record_.steps.size(), static_cast<std::size_t>(kNumSteps));
  ASSERT_FALSE(trace_.gpu_ops.empty());
  for (const GpuOp& op : trace_.gpu_ops) {
    EXPECT_EQ(op.kind, GpuOpKind::kOperator);
    EXPECT_NE(op.phase, Phase::kNone) << trace_.text(op.name);
    EXPECT_GE(op.step_index, 0) << trace_.text(op.name);
  }
  const std::set<std::string> forward = modules(Phase::kForward);
  for (const char* module : {"embedding", "block 0/norm", "block 0/attention", "block 0/mlp",
                             "block 1/attention", "block 1/mlp", "norm", "head", "loss"}) {
    EXPECT_THAT(forward, Contains(module));
  }
  // What ran forward runs backward, under the same name.
  std::set<std::string> backward = modules(Phase::kBackward);
  backward.erase("");  // The gradient of the loss itself, before any node.
  EXPECT_EQ(backward, forward);
}

TEST_F(TracedBlock, BreaksDownIntoPartsThatSumUp) {
  run(config());
  const Breakdown breakdown = compute_breakdown(trace_);
  EXPECT_EQ(breakdown.num_counted_steps, kNumSteps);
  EXPECT_TRUE(breakdown.is_consistent());
  EXPECT_GE(breakdown.coverage_ratio().value_or(0), 0.99);
  EXPECT_FALSE(breakdown.has_lost_data);
  // Both clocks saw the same steps: the operators lie within what the block measured.
  EXPECT_LE(breakdown.total.busy_ns(), record_.measured_wall_ns);
}

TEST_F(TracedBlock, NamesItsHashAndCounts) {
  run(config());
  const nlohmann::json& trace = record_.evidence.at("trace");
  EXPECT_EQ(trace.at("sha256"), sha256_file_hex(folder_ / kTraceFileName));
  EXPECT_EQ(trace.at("num_steps"), kNumSteps);
  EXPECT_EQ(counter("forward_ranges"), 1);
  EXPECT_EQ(counter("optimizer_ranges"), 1);
  EXPECT_EQ(counter("recomputed_blocks"), 0);
  EXPECT_EQ(trace_.info.at("arm"), "arm");
}

TEST_F(TracedBlock, CountsMicroSteps) {
  RunConfig accumulating = config();
  accumulating.num_accumulation = 2;
  run(accumulating);
  EXPECT_EQ(counter("forward_ranges"), 2);
  std::set<std::int32_t> micro_steps;
  for (const GpuOp& op : trace_.gpu_ops) {
    if (op.phase == Phase::kForward || op.phase == Phase::kBackward) {
      micro_steps.insert(op.micro_step_index);
    }
  }
  EXPECT_EQ(micro_steps, (std::set<std::int32_t>{0, 1}));
}

TEST_F(TracedBlock, ShowsTheBlocksThatCheckpointingRunsAgain) {
  RunConfig checkpointed = config();
  checkpointed.checkpoint = Checkpoint::kFull;
  run(checkpointed);
  EXPECT_EQ(counter("recomputed_blocks"), kNumLayers);
  EXPECT_THAT(modules(Phase::kBackward), Contains("block 1/attention"));
}

TEST_F(TracedBlock, SaysWhyItHasNoHardwareCountersAndIsUsable) {
  run(config(), BlockKind::kCounters);
  EXPECT_EQ(trace_.info.at("kind"), "counters");
  EXPECT_EQ(trace_.steps.size(), static_cast<std::size_t>(kNumSteps));
  EXPECT_FALSE(trace_.gpu_ops.empty());
  const std::string reason = record_.evidence.at("counters_absent_reason").get<std::string>();
  EXPECT_NE(reason, "");
  const nlohmann::json& counters = record_.evidence.at("hardware_counters");
  EXPECT_EQ(counters.at(0).at("name"), "sm_active");
  for (const nlohmann::json& counter : counters) {
    EXPECT_TRUE(counter.at("mean").is_null());
    EXPECT_EQ(counter.at("absent_reason"), reason);
  }
}

TEST_F(TracedBlock, RecordsWholeGraphsAsAKindOfItsOwn) {
  run(config(), BlockKind::kGraphTrace);
  EXPECT_EQ(trace_.info.at("kind"), "graph-trace");
  EXPECT_EQ(trace_.steps.size(), static_cast<std::size_t>(kNumSteps));
}

}  // namespace
}  // namespace steplens
