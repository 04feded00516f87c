// The whole way of a memory block on a CPU: the worker, its tracker, trace.slt, the account.

#include <cstdio>
#include <filesystem>
#include <string>

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
#include "reports/memory/memory_account.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kNumSteps = 3;

class MemoryBlock : public ::testing::Test {
 protected:
  static RunConfig config() {
    RunConfig config = tiny_config();
    config.sequence_length = 32;
    return config;
  }

  // fp32: embedding and head; per block norms, wqkv, wo, w13, w2; the last norm.
  static std::int64_t parameter_bytes(const ModelShape& shape) {
    const std::int64_t c = shape.d_model;
    const std::int64_t q = shape.num_heads * shape.head_dim;
    const std::int64_t kv = shape.num_kv_heads * shape.head_dim;
    const std::int64_t block = 2 * c + (q + 2 * kv) * c + c * q + 3 * shape.ffn_width * c;
    return 4 * (2 * shape.vocab_size * c + shape.num_layers * block + c);
  }

  // In a shell that gives its processes 3 GB of private memory.
  static constexpr const char* kSmallHeap = "ulimit -d 3000000 && exec \"$0\"";

  void run(const RunConfig& config, BlockKind kind = BlockKind::kMemory,
           const std::string& shell_command = "exec \"$0\"") {
    fs::remove(folder_ / "block.json");
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
        {.command = {"/bin/sh", "-c", shell_command, STEPLENS_WORKER_PATH},
         .environment = {{"STEPLENS_BLOCK_CONFIG", (folder_ / "block_config.json").string()}},
         .timeout_s = 120},
        [] { return StopRequest::kNone; });
    ASSERT_EQ(process.end, ProcessEnd::kExited);
    ASSERT_EQ(process.exit_code, 0)
        << (process.last_lines.empty() ? "" : process.last_lines.back());
    record_ = read_block_record(folder_ / "block.json");
    if (kind != BlockKind::kMemory) return;
    trace_ = read_trace(folder_ / kTraceFileName);
    use_ = compute_memory_use(trace_);
  }

  std::int64_t at_peak(MemoryOwner owner) const { return bytes_of(use_.peak.by_owner, owner); }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  BlockRecord record_;
  Trace trace_;
  MemoryUse use_;
};

TEST_F(MemoryBlock, AccountsForParametersGradientsAndOptimizerStateToTheByte) {
  run(config());
  ASSERT_EQ(record_.status, BlockStatus::kOk) << record_.reason;
  const std::int64_t parameters = parameter_bytes(config().shape);
  EXPECT_EQ(at_peak(MemoryOwner::kParameters), parameters);
  EXPECT_EQ(at_peak(MemoryOwner::kOptimizerState), 2 * parameters + 4);  // And the step count.
  // Not all gradients are there at the peak; at the end of each step they are.
  for (std::int32_t step = 0; step < kNumSteps; ++step) {
    const std::vector<MemoryPoint> points = memory_timeline(trace_, step);
    ASSERT_FALSE(points.empty());
    EXPECT_EQ(bytes_of(points.back().by_owner, MemoryOwner::kGradients), parameters) << step;
    EXPECT_EQ(bytes_of(points.back().by_owner, MemoryOwner::kActivations), 0) << step;
  }
  EXPECT_GT(at_peak(MemoryOwner::kActivations), 0);
  EXPECT_GT(at_peak(MemoryOwner::kData), 0);
  EXPECT_EQ(at_peak(MemoryOwner::kUnknown), 0);
  EXPECT_EQ(at_peak(MemoryOwner::kGraphPool), 0);
}

TEST_F(MemoryBlock, SumsToThePeakAndLosesNothing) {
  run(config());
  std::int64_t in_modules = 0;
  for (const ModuleMemory& module : use_.peak.modules) in_modules += sum_of(module.by_owner);
  EXPECT_EQ(in_modules, use_.peak.allocated_bytes());
  EXPECT_EQ(use_.num_unmatched_frees, 0);
  EXPECT_EQ(use_.num_reused_addresses, 0);
  EXPECT_FALSE(use_.has_lost_data) << nlohmann::json(trace_.quality).dump();
  EXPECT_EQ(use_.num_steps, kNumSteps);
  EXPECT_EQ(trace_.steps.front().first_step_number, 2);
  // What follows the steps (hashes of all weights) is not recorded.
  for (const Alloc& row : trace_.allocs) {
    if (row.time_ns <= trace_.steps.front().start_ns || row.phase == Phase::kData) continue;
    EXPECT_TRUE(row.action != AllocAction::kAlloc || row.step_index >= 0);
  }
  EXPECT_EQ(use_.driver_used_peak_bytes, std::nullopt);

  const nlohmann::json& account = record_.evidence.at("memory_account");
  EXPECT_EQ(account.at("allocated_bytes"), use_.peak.allocated_bytes());
  EXPECT_EQ(account.at("by_owner_bytes").at("parameters"), at_peak(MemoryOwner::kParameters));
  EXPECT_EQ(record_.evidence.at("trace").at("sha256"), sha256_file_hex(folder_ / kTraceFileName));
}

TEST_F(MemoryBlock, NamesTheModulesOfForwardAndBackward) {
  run(config());
  bool has_forward = false;
  bool has_backward = false;
  for (const Alloc& row : trace_.allocs) {
    if (row.step_index < 0 || row.range == kNoRow) continue;
    const Range& range = trace_.ranges[row.range];
    const bool is_attention = trace_.text(range.name) == "attention" && range.parent != kNoRow &&
                              trace_.text(trace_.ranges[range.parent].name) == "block 1";
    has_forward |= is_attention && row.phase == Phase::kForward;
    has_backward |= is_attention && row.phase == Phase::kBackward;
  }
  EXPECT_TRUE(has_forward);
  EXPECT_TRUE(has_backward);
}

TEST_F(MemoryBlock, ShowsThatCheckpointingHoldsFewerActivations) {
  run(config());
  const std::int64_t off = at_peak(MemoryOwner::kActivations);
  RunConfig checkpointed = config();
  checkpointed.checkpoint = Checkpoint::kFull;
  run(checkpointed);
  EXPECT_LT(at_peak(MemoryOwner::kActivations), off);
  EXPECT_EQ(use_.num_reused_addresses, 0);
}

TEST_F(MemoryBlock, AccountsForAccumulationAndTheOtherOptimizers) {
  const std::int64_t parameters = parameter_bytes(config().shape);
  RunConfig other = config();
  other.num_accumulation = 2;
  other.optimizer = Optimizer::kLoop;
  run(other);
  EXPECT_EQ(at_peak(MemoryOwner::kOptimizerState), 2 * parameters);
  EXPECT_EQ(bytes_of(memory_timeline(trace_, 2).back().by_owner, MemoryOwner::kGradients),
            parameters);
  other.optimizer = Optimizer::kFused;
  run(other);
  const std::int64_t num_tensors = 2 + 2 * 6 + 1;
  EXPECT_EQ(at_peak(MemoryOwner::kOptimizerState), 2 * parameters + 4 * num_tensors);
}

TEST_F(MemoryBlock, SaysWhatWasLiveWhenMemoryRanOut) {
  RunConfig large = config();
  // Scores of 128 heads over 3000 positions are 4.29 GiB of floats.
  large.attention = Attention::kMath;
  large.shape.d_model = 256;
  large.shape.num_heads = 128;
  large.shape.num_kv_heads = 128;
  large.shape.head_dim = 2;
  large.sequence_length = 3000;
  large.global_batch_size = 1;
  large.shape.num_layers = 1;
  run(large, BlockKind::kMemory, kSmallHeap);
  ASSERT_EQ(record_.status, BlockStatus::kOom) << record_.reason;
  EXPECT_THAT(record_.reason, HasSubstr("4.29 GiB more were wanted in forward, block 0/attention"));
  EXPECT_THAT(record_.reason, HasSubstr("activations "));
  EXPECT_THAT(record_.reason, HasSubstr("parameters "));
  EXPECT_THAT(record_.reason, HasSubstr("optimizer state "));
  // A block of another kind knows what the step keeps.
  run(large, BlockKind::kThroughput, kSmallHeap);
  ASSERT_EQ(record_.status, BlockStatus::kOom) << record_.reason;
  EXPECT_THAT(record_.reason, HasSubstr("live were parameters "));
}

TEST_F(MemoryBlock, PrintsWhatTheTrackerCosts) {
  run(config(), BlockKind::kThroughput);
  const double plain_ns = mean_step_wall_ns(record_);
  run(config());
  const double tracked_ns = mean_step_wall_ns(record_);
  const auto num_rows = static_cast<double>(trace_.allocs.size()) / kNumSteps;
  std::printf("step %.0f us, tracked %.0f us, %.0f allocations and frees a step\n", plain_ns / 1000,
              tracked_ns / 1000, num_rows);
  EXPECT_GT(tracked_ns, 0);
}

}  // namespace
}  // namespace steplens
