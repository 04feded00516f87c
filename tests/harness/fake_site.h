#pragma once

#include <cmath>
#include <filesystem>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "harness/error.h"
#include "harness/files.h"
#include "harness/scheduler.h"
#include "harness/statistics.h"
#include "harness/temporary_folder.h"

namespace steplens::testing_support {

/// A machine of which tests set every part.
class FakeMachine : public Machine {
 public:
  std::vector<GpuInfo> gpu_list;
  std::string cpu = "Fake CPU";
  std::optional<double> celsius;
  std::optional<double> headroom;
  std::vector<ForeignProcess> foreign;
  double load = 0;

  std::vector<GpuInfo> gpus() override { return gpu_list; }
  std::string why_no_gpu() override { return "no driver"; }
  std::string cpu_model() override { return cpu; }
  std::optional<double> temperature_celsius(const std::string& /*uuid*/) override {
    return celsius;
  }
  std::optional<double> headroom_celsius(const std::string& /*uuid*/) override { return headroom; }
  std::vector<ForeignProcess> foreign_processes(const std::string& /*uuid*/) override {
    return foreign;
  }
  double load_average() override { return load; }
  nlohmann::json environment(const std::string& /*uuid*/) override { return {{"cpu", cpu}}; }
};

/// How one block of the fake world ends.
struct FakeBlock {
  BlockStatus status = BlockStatus::kOk;
  int signal = 0;  // Dies by it, without a block.json.
  double duration_s = 10;
  double step_ns = 2e6;
  std::int64_t detected_warmup_steps = 12;
  bool is_interrupted = false;         // The user presses Ctrl-C while it runs.
  std::string counters_absent_reason;  // In its evidence, unless empty.
  double step_gpu_ns = 0;              // Of each measured step; 0: no GPU.
};

/// A world without processes and without real time: blocks are answered by a function, the clock
/// moves by their durations and by what the scheduler sleeps.
class FakeWorld {
 public:
  FakeWorld() {
    write_file_atomically(data_path(), "tokens");
    write_json_atomically(folder_ / "data.json", {{"name", "test"}, {"sha256", "abc"}});
  }
  FakeWorld(const FakeWorld&) = delete;
  FakeWorld& operator=(const FakeWorld&) = delete;

  std::filesystem::path folder() const { return folder_; }
  std::filesystem::path bundle() const { return folder_ / "bundle"; }
  std::filesystem::path data_path() const { return folder_ / "data.bin"; }

  FakeMachine machine;
  double now_s = 1'700'000'000;
  std::string boot_id = "boot-1";
  StopRequest stop = StopRequest::kNone;
  /// Answers each block; `attempt` counts from 0 within its arm, kind and round.
  std::function<FakeBlock(const BlockConfig& block, int attempt)> answer =
      [](const BlockConfig&, int) { return FakeBlock{}; };
  std::function<void()> on_sleep = [] {};
  std::vector<std::vector<ProcessSpec>> worlds;  // The ranks of each block that had several.
  std::vector<BlockConfig> ran;                  // All blocks that were started, in order.
  std::ostringstream output;

  RunSite site() {
    return {.machine = &machine,
            .run_process = [this](const ProcessSpec& spec, const auto&) { return run(spec); },
            .run_processes =
                [this](const std::vector<ProcessSpec>& specs, const auto&) {
                  // Rank 0 writes for all, and they end alike.
                  worlds.push_back(specs);
                  return std::vector<ProcessResult>(specs.size(), run(specs.front()));
                },
            .stop_request = [this] { return stop; },
            .now_s = [this] { return now_s; },
            .sleep_s =
                [this](double duration_s) {
                  now_s += duration_s;
                  on_sleep();
                },
            .boot_id = boot_id};
  }

  RunOptions options(bool is_resume = false) const {
    return {.bundle = bundle(),
            .is_resume = is_resume,
            .worker_command = {"/bin/true"},
            .data_path = data_path(),
            .memory_path = folder_ / "memory.json"};
  }

  RunOutcome run_here(const Plan& plan, const RunOptions& run_options) {
    stop = StopRequest::kNone;
    const RunSite here = site();
    Progress progress(output, false, false);
    return run_plan(plan, run_options, here, progress,
                    [this](const std::filesystem::path&) { ++num_finished; });
  }
  RunOutcome start(const Plan& plan) { return run_here(plan, options()); }
  RunOutcome resume(const Plan& plan) { return run_here(plan, options(true)); }

  Bundle open() const { return open_bundle(bundle()); }

  int num_finished = 0;  // Calls of on_finished.

 private:
  ProcessResult run(const ProcessSpec& spec) {
    BlockConfig block;
    for (const auto& [name, value] : spec.environment) {
      if (name == "STEPLENS_BLOCK_CONFIG") block = block_config_from_json(read_json(value));
    }
    int attempt = 0;
    for (const BlockConfig& earlier : ran) {
      attempt += earlier.arm == block.arm && earlier.kind == block.kind &&
                         earlier.round_index == block.round_index
                     ? 1
                     : 0;
    }
    ran.push_back(block);
    const FakeBlock fake = answer(block, attempt);
    now_s += fake.duration_s;
    ProcessResult result{.end = ProcessEnd::kExited, .wall_s = fake.duration_s};
    if (fake.is_interrupted) {
      stop = StopRequest::kGently;
      result.end = ProcessEnd::kStopped;
      return result;
    }
    if (fake.signal != 0) {
      result.end = ProcessEnd::kSignaled;
      result.signal = fake.signal;
      result.last_lines = {"dying in /home/somebody/x.py", ""};
      return result;
    }
    write_json_atomically(block.output_folder / "block.json", to_json(record_of(block, fake)));
    return result;
  }

  BlockRecord record_of(const BlockConfig& block, const FakeBlock& fake) const {
    BlockRecord record{.status = fake.status,
                       .reason = fake.status == BlockStatus::kOk ? "" : "as the test wants",
                       .kind = block.kind,
                       .arm = block.arm,
                       .round_index = block.round_index,
                       .world_size = block.world_size,
                       .config = block.config};
    const bool is_pilot = block.kind == BlockKind::kPilot;
    fill(record.warmup, is_pilot ? fake.detected_warmup_steps : block.num_warmup_steps, block,
         fake);
    fill(record.steps, block.num_measured_steps, block, fake);
    if (fake.step_gpu_ns > 0) {
      record.steps.step_gpu_ns.assign(record.steps.size(), std::llround(fake.step_gpu_ns));
    }
    record.evidence["detected_warmup_steps"] = fake.detected_warmup_steps;
    if (!fake.counters_absent_reason.empty()) {
      record.evidence["counters_absent_reason"] = fake.counters_absent_reason;
    }
    record.evidence["number"] = ran.size();  // No two blocks are the same file.
    return record;
  }

  static void fill(StepArrays& steps, std::int64_t count, const BlockConfig& block,
                   const FakeBlock& fake) {
    for (std::int64_t i = 0; i < count; ++i) {
      steps.step_wall_ns.push_back(std::llround(fake.step_ns));
      steps.num_positions.push_back(positions_per_step(block.config));
      steps.num_valid_tokens.push_back(positions_per_step(block.config));
      steps.num_loss_tokens.push_back(positions_per_step(block.config));
      steps.loss.push_back(1);
      steps.grad_norm.push_back(1);
      steps.lr.push_back(1e-3);
      steps.data_wait_ns.push_back(0);
    }
  }

  // In memory where possible: every block is synced to the disk several times.
  TemporaryFolder temporary_{"steplens-test",
                             std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : ""};
  std::filesystem::path folder_ = temporary_.path();
};

}  // namespace steplens::testing_support
