#include "workloads/run_block.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>
#include <set>

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "harness/error.h"
#include "harness/ranks/rank_progress.h"
#include "harness/ranks/world_record.h"
#include "harness/statistics.h"
#include "harness/step_counts.h"
#include "harness/trace/range_names.h"
#include "harness/trace/trace_writer.h"
#include "workloads/attention.h"
#include "workloads/autograd_ranges.h"
#include "workloads/catalog/batcher.h"
#include "workloads/catalog/data_hash.h"
#include "workloads/catalog/toggles.h"
#include "workloads/catalog/token_file.h"
#include "workloads/catalog/world_data.h"
#include "workloads/data_feed.h"
#include "workloads/device_info.h"
#include "workloads/evidence.h"
#include "workloads/memory_tracker.h"
#include "workloads/parallel/gradient_reducer.h"
#include "workloads/parallel/world.h"
#include "workloads/ranges.h"
#include "workloads/step_clock.h"
#include "workloads/step_executor.h"
#include "workloads/train_step.h"

namespace steplens {
namespace {

// Steps of a pilot over which operators are counted, after its warm-up.
constexpr std::int64_t kNumProbeSteps = 2;

// Counters of what happens inside the step's code, which a replayed graph does not run again: a
// graph's count is that of its capture.
constexpr std::string_view kCountedInStep[] = {"forward_passes",       "block_forwards",
                                               "loss_reads",           "injected_spins",
                                               "fused_norms",          "fused_ropes",
                                               "fused_mlps",           "fused_losses",
                                               "multi_tensor_updates", "fused_embedding_gradients"};

Counters difference(const Counters& after, const Counters& before) {
  Counters result;
  for (const auto& [name, count] : after) {
    const auto it = before.find(name);
    const std::int64_t change = count - (it == before.end() ? 0 : it->second);
    if (change != 0) result[name] = change;
  }
  return result;
}

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

// Everything that one block needs while it runs, in the order in which it comes to life.
class BlockRun {
 public:
  // `world`: null with one rank.
  BlockRun(const BlockConfig& block, Sampler& sampler, const std::function<void()>& after_steps,
           World* world)
      : block_(block),
        config_(block.config),
        world_(world),
        sampler_(sampler),
        after_steps_(after_steps),
        file_(block.data_path),
        num_measured_steps_(block.kind == BlockKind::kPilot
                                ? std::max(block.num_measured_steps, kNumProbeSteps)
                                : block.num_measured_steps),
        warmup_(file_, config_, {block.first_data_step_index, block.num_warmup_steps}, block.rank,
                block.world_size),
        measured_(file_, config_,
                  {block.first_data_step_index + block.num_warmup_steps, num_measured_steps_},
                  block.rank, block.world_size) {
    file_.check_fits(config_);
  }

  void run(BlockRecord& record) {
    std::optional<TrainStep> train_step;
    if (block_.kind == BlockKind::kMemory) memory_.emplace(config_);
    try {
      train(record, train_step);
    } catch (...) {
      if (train_step) record.evidence["kept_bytes"] = kept_bytes(*train_step);
      // The trace of a block that ran out of memory says who had it.
      if (memory_ && train_step) {
        memory_->own(gradients_of(train_step->model()), MemoryOwner::kGradients);
      }
      if (memory_) write_memory_trace();
      throw;
    }
    if (memory_) write_memory_trace();
  }

 private:
  void train(BlockRecord& record, std::optional<TrainStep>& made_train_step) {
    PhaseTimer phases;
    record.environment = environment_of(config_);
    TrainStep& train_step = made_train_step.emplace(config_, num_data_steps());
    std::optional<GradientReducer> reducer;
    if (world_ != nullptr) {
      train_step.synchronize_with(
          reducer.emplace(config_, trained_parameters_of(train_step), *world_));
    }
    if (memory_) own_lasting(train_step);
    record.weights_hash = train_step.model().weights_hash();
    phases.end("model_ns");
    if (config_.device == Device::kCuda) c10::cuda::CUDACachingAllocator::emptyCache();
    const std::unique_ptr<StepExecutor> executor = make_step_executor(config_, train_step);
    consumed_.reserve(static_cast<std::size_t>(num_data_steps()));
    std::optional<AutogradRanges> autograd_ranges;
    if (writes_trace(block_.kind) || config_.tracing == Tracing::kFull) {
      autograd_ranges.emplace(config_.device == Device::kCpu && !memory_);
    }
    std::unique_ptr<DataFeed> feed = make_data_feed(
        config_, [this](std::int64_t index) { return make_batch(index); }, num_data_steps());

    if (block_.kind == BlockKind::kPilot) {
      run_pilot(record, *feed, *executor);
    } else {
      run_fixed(record, *feed, *executor, train_step);
    }
    phases.end("steps_ns");
    feed.reset();  // Its thread adds to consumed_; of a pilot it is ahead of what ran.
    consumed_.resize(static_cast<std::size_t>(num_steps_run_));
    record.memory = memory_of(config_, executor->hidden_bytes());
    if (config_.graph) record.compile_ns = executor->compile_ns();
    fill_log(record, train_step);
    fill_hashes(record);
    record.final_weights_hash = train_step.model().weights_hash();
    phases.end("record_ns");
    record.evidence["phases"] = phases.durations();
    check_finite(record);
    if (world_ != nullptr) become_the_worlds(record);
  }

  // Rank 0's record then holds the numbers of all ranks.
  void become_the_worlds(BlockRecord& record) const {
    const std::vector<std::string> texts = world_->gather(to_json(record).dump());
    if (texts.empty()) return;
    std::vector<BlockRecord> ranks;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      ranks.push_back(block_record_from_json(nlohmann::json::parse(texts[i]),
                                             fmt::format("record of rank {}", i)));
    }
    const Region regions[] = {
        {block_.first_data_step_index, block_.num_warmup_steps},
        {block_.first_data_step_index + block_.num_warmup_steps, num_measured_steps_}};
    const WorldDataHashes hashes = world_data_hashes(file_, config_, regions, num_steps_run_);
    record = record_of_world(ranks, hashes.all);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (record.status == BlockStatus::kOk && ranks[i].data_hash != hashes.by_rank[i]) {
        record.status = BlockStatus::kInvalid;
        record.reason = fmt::format("rank {} trained on other tokens than its share", i);
      }
    }
  }

  // Ranks must do the same number of steps: what rank 0 measured decides.
  std::int64_t as_rank_0_says(std::int64_t value) const {
    return world_ == nullptr ? value : std::stoll(world_->from_rank_0(std::to_string(value)));
  }

  std::int64_t num_data_steps() const { return block_.num_warmup_steps + num_measured_steps_; }

  StepBatch make_batch(std::int64_t index) {
    StepBatch batch = index < block_.num_warmup_steps
                          ? warmup_.step(index)
                          : measured_.step(index - block_.num_warmup_steps);
    // Hashed after the measured steps: SHA-256 has no place inside the clock.
    consumed_.push_back(batch);
    return batch;
  }

  void run_step(DataFeed& feed, StepExecutor& executor, StepArrays& arrays) {
    note_step_begin();
    const ScopedRange range(kStepRangeName.data());
    FedStep fed = feed.next();
    arrays.num_positions.push_back(fed.num_positions);
    arrays.num_valid_tokens.push_back(fed.num_valid_tokens);
    arrays.num_loss_tokens.push_back(fed.num_loss_tokens);
    arrays.data_wait_ns.push_back(fed.wait_ns);
    executor.run(fed.step);
    ++num_steps_run_;
  }

  static std::vector<at::Tensor> parameters_of(const TrainStep& train_step) {
    std::vector<at::Tensor> parameters;
    for (const Parameter& parameter : train_step.model().parameters()) {
      parameters.push_back(parameter.value);
    }
    return parameters;
  }

  static std::vector<at::Tensor> trained_parameters_of(const TrainStep& train_step) {
    std::vector<at::Tensor> parameters;
    for (const Parameter& parameter : train_step.model().parameters()) {
      if (parameter.is_trained) parameters.push_back(parameter.value);
    }
    return parameters;
  }

  // What a step cannot do without, known without a tracker.
  static nlohmann::json kept_bytes(const TrainStep& train_step) {
    const auto sum = [](const std::vector<at::Tensor>& tensors) {
      std::int64_t bytes = 0;
      for (const at::Tensor& tensor : tensors) {
        if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
      }
      return bytes;
    };
    return {{"parameters", sum(parameters_of(train_step))},
            {"gradients", sum(gradients_of(train_step.model()))},
            {"optimizer_state", sum(train_step.optimizer().state())}};
  }

  void own_lasting(const TrainStep& train_step) {
    memory_->own(parameters_of(train_step), MemoryOwner::kParameters);
    memory_->own(train_step.optimizer().state(), MemoryOwner::kOptimizerState);
  }

  void run_tracked_step(DataFeed& feed, StepExecutor& executor, StepArrays& arrays,
                        const TrainStep& train_step) {
    memory_->begin_step(num_steps_run_);
    run_step(feed, executor, arrays);
    // They live until the next step resets them, at the addresses of its first backward pass.
    memory_->own(gradients_of(train_step.model()), MemoryOwner::kGradients);
    memory_->end_step();
  }

  void write_memory_trace() const {
    const std::string name = block_.rank == 0 ? std::string(kTraceFileName)
                                              : fmt::format("trace.rank{}.slt", block_.rank);
    write_trace(block_.output_folder / name, memory_->trace({{"kind", name_of(block_.kind)},
                                                             {"arm", block_.arm},
                                                             {"config", to_json(config_)},
                                                             {"rank", block_.rank}}));
  }

  // Warm-up of a fixed length, then the measured steps.
  void run_fixed(BlockRecord& record, DataFeed& feed, StepExecutor& executor,
                 const TrainStep& train_step) {
    const auto clock = make_step_clock(config_, block_.num_warmup_steps, num_data_steps(),
                                       /*is_pilot=*/false);
    const bool is_sampled = config_.instrumentation == Instrumentation::kFull;
    StepArrays all;
    std::vector<bool> events;
    clock->start();
    for (std::int64_t i = 0; i < num_data_steps(); ++i) {
      if (i == block_.num_warmup_steps) {
        // The device goes on with the last warm-up step meanwhile: no pause in its queue.
        reset_memory_peaks(config_);
        if (is_sampled) sampler_.start();
        if (memory_) memory_->begin_window();
      }
      const std::int64_t before = num_events(executor);
      if (memory_) {
        run_tracked_step(feed, executor, all, train_step);
      } else {
        run_step(feed, executor, all);
      }
      clock->end_step();
      events.push_back(num_events(executor) != before);
    }
    if (memory_) memory_->stop();
    {
      const ScopedRange fence(kFenceRangeName.data());
      record.measured_wall_ns = take_times(all, clock->finish());
    }
    if (is_sampled) record.samples = sampler_.stop();
    if (after_steps_) after_steps_();
    split(all, static_cast<std::size_t>(block_.num_warmup_steps), record);

    WarmupDetector detector;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::size_t num_warmup = record.warmup.size();
      detector.feed(i < num_warmup ? record.warmup.step_wall_ns[i]
                                   : record.steps.step_wall_ns[i - num_warmup],
                    events[i]);
    }
    const std::optional<int> detected = detector.num_warmup_steps();
    record.evidence["detected_warmup_steps"] =
        detected ? nlohmann::json(*detected) : nlohmann::json(nullptr);
    record.evidence["warmup_disagrees"] = !detected || *detected > block_.num_warmup_steps;
  }

  // Warm-up by detection, then a few steps whose operators are counted.
  void run_pilot(BlockRecord& record, DataFeed& feed, StepExecutor& executor) {
    const auto clock = make_step_clock(config_, 0, num_data_steps(), /*is_pilot=*/true);
    WarmupDetector detector;
    StepArrays all;
    std::vector<bool> events;
    std::size_t num_fed = 0;
    Counters in_capture_operators;
    Counters in_capture_events;
    const double limit_ns = block_.max_pilot_s * 1e9;
    double elapsed_ns = 0;

    sampler_.start();
    clock->start();
    for (std::int64_t i = 0; i < block_.num_warmup_steps; ++i) {
      const std::int64_t before = num_events(executor);
      const bool is_capture = config_.graph && i == kNumStepsBeforeCapture;
      if (is_capture) {
        const OperatorCounter counter;
        const Counters events_before = event_counts();
        run_step(feed, executor, all);
        in_capture_operators = counter.counts();
        in_capture_events = difference(event_counts(), events_before);
      } else {
        run_step(feed, executor, all);
      }
      events.push_back(num_events(executor) != before);
      const std::int64_t observed_ns = clock->end_step();
      bool is_enough = false;
      if (observed_ns >= 0) {
        elapsed_ns += static_cast<double>(observed_ns);
        is_enough = detector.feed(observed_ns, events[num_fed++]) || elapsed_ns > limit_ns;
      }
      if (as_rank_0_says(is_enough ? 1 : 0) != 0) break;
    }
    const std::size_t num_run = all.size();
    take_times(all, clock->finish());
    record.samples = sampler_.stop();

    // The steps from the detected end of the warm-up on are the clean ones.
    const auto num_warmup = static_cast<std::size_t>(
        as_rank_0_says(detector.is_settled() ? *detector.num_warmup_steps()
                                             : static_cast<std::int64_t>(num_run / 2)));
    split(all, num_warmup, record);
    for (const std::int64_t wall_ns : record.steps.step_wall_ns) record.measured_wall_ns += wall_ns;
    record.evidence["detected_warmup_steps"] = num_warmup;
    record.evidence["warmup_settled"] = detector.is_settled();

    StepArrays probe;
    Counters operators;
    {
      const OperatorCounter counter;
      for (std::int64_t i = 0; i < kNumProbeSteps; ++i) run_step(feed, executor, probe);
      if (config_.device == Device::kCuda) c10::cuda::device_synchronize();
      operators = counter.counts();
    }
    record.evidence["counters"] = counters(operators, in_capture_operators, in_capture_events);
    record.evidence["num_probe_steps"] = kNumProbeSteps;
  }

  Counters counters(const Counters& operators, const Counters& in_capture_operators,
                    const Counters& in_capture_events) const {
    Counters result;
    for (const auto& [name, count] : operators) result[name] = count / kNumProbeSteps;
    for (const auto& [name, count] : in_capture_operators) {
      // What the graph holds ran once, in the capture; "operators" stays what the host dispatches.
      if (name != "operators") result[name] = count;
    }
    for (const auto& [name, count] : difference(event_counts(), events_before_)) {
      result[name] =
          name == "frozen_parameters" || name == "bf16_parameters"
              ? count
              : std::max<std::int64_t>(
                    count > 0 ? 1 : 0,
                    std::llround(static_cast<double>(count) / static_cast<double>(num_steps_run_)));
    }
    if (config_.graph) {
      for (const std::string_view name : kCountedInStep) {
        const auto it = in_capture_events.find(std::string(name));
        if (it != in_capture_events.end()) result[it->first] = it->second;
      }
    }
    result["distinct_row_lengths"] = num_distinct_row_lengths();
    result["expandable_segments"] = has_expandable_segments(config_) ? 1 : 0;
    result["nvtx_ranges"] = (num_ranges_opened() - num_ranges_before_) / num_steps_run_;
    return result;
  }

  // Over the whole region that a pilot may use: its few steps may all lie in one bucket.
  std::int64_t num_distinct_row_lengths() const {
    std::set<std::int64_t> lengths;
    for (std::int64_t i = 0; i < block_.num_warmup_steps; ++i) {
      for (const MicroBatch& micro : warmup_.step(i).micro_batches) {
        lengths.insert(micro.row_length);
      }
    }
    return std::ssize(lengths);
  }

  std::int64_t num_events(const StepExecutor& executor) const {
    return num_allocator_events(config_) + (executor.compile_ns() > 0 ? 1 : 0);
  }

  static std::int64_t take_times(StepArrays& arrays, StepTimes times) {
    arrays.step_wall_ns = std::move(times.wall_ns);
    arrays.step_gpu_ns = std::move(times.gpu_ns);
    return times.measured_wall_ns;
  }

  static void split(const StepArrays& all, std::size_t num_warmup, BlockRecord& record) {
    const auto cut = [&](auto member) {
      const auto& source = all.*member;
      if (source.empty()) return;
      const auto middle = source.begin() + static_cast<std::ptrdiff_t>(num_warmup);
      (record.warmup.*member).assign(source.begin(), middle);
      (record.steps.*member).assign(middle, source.end());
    };
    cut(&StepArrays::step_wall_ns);
    cut(&StepArrays::step_gpu_ns);
    cut(&StepArrays::num_positions);
    cut(&StepArrays::num_valid_tokens);
    cut(&StepArrays::num_loss_tokens);
    cut(&StepArrays::data_wait_ns);
  }

  void fill_log(BlockRecord& record, const TrainStep& train_step) const {
    const auto rows = train_step.log().rows(
        static_cast<std::int64_t>(record.warmup.size() + record.steps.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      StepArrays& arrays = i < record.warmup.size() ? record.warmup : record.steps;
      arrays.loss.push_back(rows[i][0]);
      arrays.grad_norm.push_back(rows[i][1]);
      arrays.lr.push_back(rows[i][2]);
    }
  }

  void fill_hashes(BlockRecord& record) const {
    DataHash hash;
    for (const StepBatch& batch : consumed_) hash.add(batch);
    record.data_hash = hash.hex();
    std::vector<std::int64_t> offsets(warmup_.span_offsets().begin(), warmup_.span_offsets().end());
    offsets.insert(offsets.end(), measured_.span_offsets().begin(), measured_.span_offsets().end());
    record.data_set_hash = data_set_hash(file_, offsets, config_.sequence_length);
  }

  static void check_finite(BlockRecord& record) {
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

  const BlockConfig& block_;
  const RunConfig& config_;
  World* world_;
  Sampler& sampler_;
  const std::function<void()>& after_steps_;
  TokenFile file_;
  std::int64_t num_measured_steps_;
  Batcher warmup_, measured_;
  std::vector<StepBatch> consumed_;
  std::optional<MemoryTracker> memory_;  // Of a memory block.
  // A process that runs several blocks (a test) counts on.
  Counters events_before_ = event_counts();
  std::int64_t num_ranges_before_ = num_ranges_opened();
  std::int64_t num_steps_run_ = 0;
};

// The world of a block, which an error leaves to itself: its end would wait for the other ranks,
// and they wait for this one.
class JoinedWorld {
 public:
  JoinedWorld(const BlockConfig& block, const RankPlace& place) {
    if (block.world_size > 1) world_ = World::join(block, place);
  }
  ~JoinedWorld() {
    if (std::uncaught_exceptions() > num_exceptions_) static_cast<void>(world_.release());
  }
  JoinedWorld(const JoinedWorld&) = delete;
  JoinedWorld& operator=(const JoinedWorld&) = delete;
  World* get() const { return world_.get(); }

 private:
  int num_exceptions_ = std::uncaught_exceptions();
  std::unique_ptr<World> world_;
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
    const JoinedWorld world(block, place);
    BlockRun run(block, sampler, after_steps, world.get());
    run.run(record);
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
