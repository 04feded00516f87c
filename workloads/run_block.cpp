#include "workloads/run_block.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <optional>

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "harness/error.h"
#include "harness/ranks/rank_progress.h"
#include "workloads/attention.h"
#include "workloads/autograd_ranges.h"
#include "workloads/block/block_data.h"
#include "workloads/block/block_memory.h"
#include "workloads/block/block_world.h"
#include "workloads/block/fixed_run.h"
#include "workloads/block/pilot.h"
#include "workloads/block/step_runner.h"
#include "workloads/catalog/toggles.h"
#include "workloads/data_feed.h"
#include "workloads/device_info.h"
#include "workloads/fused/gemm.h"
#include "workloads/parallel/gradient_reducer.h"
#include "workloads/ranges.h"
#include "workloads/step_executor.h"
#include "workloads/train_step.h"

namespace steplens {
namespace {

// Where a block's time outside the measured steps goes: what to shorten next.
class PhaseTimer {
 public:
  void end(const char* phase) {
    const auto now = std::chrono::steady_clock::now();
    durations_[phase] = std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count();
    start_ = now;
  }
  const nlohmann::json& durations() const { return durations_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  nlohmann::json durations_ = nlohmann::json::object();
};

void fill_log(BlockRecord& record, const TrainStep& train_step) {
  const auto rows =
      train_step.log().rows(static_cast<std::int64_t>(record.warmup.size() + record.steps.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    StepArrays& arrays = i < record.warmup.size() ? record.warmup : record.steps;
    arrays.loss.push_back(rows[i][0]);
    arrays.grad_norm.push_back(rows[i][1]);
    arrays.lr.push_back(rows[i][2]);
  }
}

void check_finite(BlockRecord& record) {
  for (std::size_t i = 0; i < record.steps.loss.size(); ++i) {
    if (std::isfinite(record.steps.loss[i]) && std::isfinite(record.steps.grad_norm[i])) continue;
    // fp16 starts with a loss scale that overflows on purpose; its gradient norm may, once.
    if (std::isfinite(record.steps.loss[i]) && record.config.precision == Precision::kFp16) {
      continue;
    }
    record.status = BlockStatus::kNan;
    record.reason = fmt::format("measured step {}: loss {}, gradient norm {}", i,
                                record.steps.loss[i], record.steps.grad_norm[i]);
    return;
  }
}

// Everything that one block needs while it runs, in the order in which it comes to life.
class BlockRun {
 public:
  // `world`: null without the Reducer.
  BlockRun(const BlockConfig& block, Sampler& sampler, const std::function<void()>& after_steps,
           World* world)
      : block_(block),
        config_(block.config),
        world_(world),
        sampler_(sampler),
        after_steps_(after_steps),
        data_(block) {}

  void run(BlockRecord& record) {
    std::optional<TrainStep> train_step;
    if (block_.kind == BlockKind::kMemory) memory_.emplace(block_);
    try {
      train(record, train_step);
    } catch (...) {
      if (train_step) record.evidence["kept_bytes"] = kept_bytes(*train_step);
      // The trace of a block that ran out of memory says who had it.
      if (memory_ && train_step) memory_->own_gradients(*train_step);
      if (memory_) memory_->write();
      throw;
    }
    if (memory_) memory_->write();
  }

 private:
  void train(BlockRecord& record, std::optional<TrainStep>& made_train_step) {
    PhaseTimer phases;
    record.environment = environment_of(config_);
    TrainStep& train_step = made_train_step.emplace(config_, data_.num_steps());
    std::optional<GradientReducer> reducer;
    if (world_ != nullptr) {
      train_step.synchronize_with(
          reducer.emplace(config_, trained_parameters_of(train_step), *world_));
    }
    if (memory_) memory_->own_lasting(train_step);
    record.weights_hash = train_step.model().weights_hash();
    phases.end("model_ns");
    if (config_.device == Device::kCuda) c10::cuda::CUDACachingAllocator::emptyCache();
    const std::unique_ptr<StepExecutor> executor = make_step_executor(config_, train_step);
    std::optional<AutogradRanges> autograd_ranges;
    if (writes_trace(block_.kind) || config_.tracing == Tracing::kFull) {
      autograd_ranges.emplace(config_.device == Device::kCpu && !memory_);
    }
    run_steps(record, *executor);
    phases.end("steps_ns");
    if (block_.world_size > 1 && writes_trace(block_.kind)) note_clock(*world_, record);
    record.memory = memory_of(config_, executor->hidden_bytes());
    if (config_.graph) record.compile_ns = executor->compile_ns();
    if (const CompiledPass* compiled = train_step.compiled()) {
      record.compile_ns = record.compile_ns.value_or(0) + compiled->compile_ns();
      record.evidence["package"] = compiled->facts();
    }
    fill_log(record, train_step);
    data_.fill_hashes(record);
    record.final_weights_hash = train_step.model().weights_hash();
    phases.end("record_ns");
    record.evidence["phases"] = phases.durations();
    check_finite(record);
    if (block_.world_size > 1) become_record_of_world(*world_, data_, record);
  }

  void run_steps(BlockRecord& record, StepExecutor& executor) {
    std::unique_ptr<DataFeed> feed = make_data_feed(
        config_, [this](std::int64_t index) { return data_.make_batch(index); }, data_.num_steps());
    StepRunner steps(config_, *feed, executor);
    if (block_.kind == BlockKind::kPilot) {
      run_pilot(block_, data_, steps, sampler_, world_, counts_before_, record);
    } else {
      run_fixed(block_, data_, steps, sampler_, after_steps_, memory_ ? &*memory_ : nullptr,
                record);
    }
    feed.reset();  // Its thread makes batches; of a pilot it is ahead of what ran.
    data_.keep_consumed(steps.num_steps_run());
  }

  const BlockConfig& block_;
  const RunConfig& config_;
  World* world_;
  Sampler& sampler_;
  const std::function<void()>& after_steps_;
  BlockData data_;
  std::optional<BlockMemory> memory_;  // Of a memory block.
  CountsBefore counts_before_;
};

// What an error of the library says in one line. A rank that only waited in vain says so first:
// another one is to blame.
std::string reason_of(const c10::Error& error, int world_size) {
  const std::string text = error.what_without_backtrace();
  const std::string line = text.substr(0, text.find('\n'));
  const bool has_waited = text.find("for the other ranks") != std::string::npos ||
                          text.find("timeout") != std::string::npos ||
                          text.find("Timeout") != std::string::npos;
  return world_size > 1 && has_waited ? std::string(kWaitedForRanks) + line : line;
}

}  // namespace

BlockRecord run_block(const BlockConfig& block, Sampler& sampler,
                      const std::function<void()>& after_steps, const RankPlace& place) {
  const RunConfig& config = block.config;
  validate(config);
  BlockRecord record{.kind = block.kind,
                     .arm = block.arm,
                     .round_index = block.round_index,
                     .rank = block.rank,
                     .world_size = block.world_size,
                     .config = config};
  const auto end_as = [&](BlockStatus status, std::string reason) {
    record.status = status;
    record.reason = std::move(reason);
    // Arrays of unequal length would make the record unreadable; what they held is not a result.
    record.warmup = {};
    record.steps = {};
    return record;
  };
  const std::string_view reason = why_not(config);
  if (!reason.empty()) return end_as(BlockStatus::kUnsupported, std::string(reason));
  prepare_process(config, block.device_id);
  enable_ranges(config.instrumentation == Instrumentation::kFull || writes_trace(block.kind));
  force_attention(config.attention);
  try {
    // One side stream for everything, graph or not: autograd's nodes remember the stream on which
    // they were made, and arms must not differ in it.
    std::optional<c10::cuda::CUDAStreamGuard> stream;
    if (config.device == Device::kCuda) {
      stream.emplace(c10::cuda::getStreamFromPool(/*isHighPriority=*/false));
    }
    const AttentionChoice choice = choose_attention(config);
    record.evidence["attention"] = to_json(config, choice);
    const std::string refusal = why_attention_cannot_run(config, choice);
    if (!refusal.empty()) return end_as(BlockStatus::kUnsupported, refusal);
    const std::string no_package = CompiledPass::why_not(config);
    if (!no_package.empty()) return end_as(BlockStatus::kUnsupported, no_package);
    const JoinedWorld world(block, place);
    BlockRun run(block, sampler, after_steps, world.get());
    run.run(record);
    if (config.gemm == Gemm::kTuned) record.evidence["gemm"] = tuned_gemm_facts();
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = error.what_without_backtrace();
    return end_as(BlockStatus::kOom, text.substr(0, text.find('\n')));
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    const bool is_oom = text.find("out of memory") != std::string::npos ||
                        text.find("can't allocate memory") != std::string::npos;  // CPU.
    return end_as(is_oom ? BlockStatus::kOom : BlockStatus::kCrash,
                  reason_of(error, block.world_size));
  } catch (const std::bad_alloc&) {
    return end_as(BlockStatus::kOom, "the host ran out of memory");
  }
  return record;
}

}  // namespace steplens
