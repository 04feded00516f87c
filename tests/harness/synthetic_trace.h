#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/trace/trace.h"

namespace steplens {

/// A trace as of a small transformer: about 1,100 GPU operations a step in the same order each
/// step, 60 kernel names, durations with jitter and a tail, gaps of launch latency, and around them
/// the API calls, ranges, allocations and counters. The same numbers at each call.
class SyntheticTrace {
 public:
  static Trace make(int num_steps) {
    SyntheticTrace synthetic;
    for (int step = 0; step < num_steps; ++step) synthetic.add_step(step);
    synthetic.add_counters();
    return std::move(synthetic.trace_);
  }

 private:
  static constexpr int kOpsPerStep = 1100;
  static constexpr int kOpsPerModule = 6;
  static constexpr std::uint32_t kNumKernelNames = 60;

  // One operation of the step, as each step repeats it.
  struct Planned {
    GpuOp op;
    double duration_ns;
  };

  SyntheticTrace() : random_(7) {
    trace_.info = {{"run_kind", "trace"}, {"arm", "attention=flash"}};
    trace_.quality = {{"dropped", 0}, {"unattributed", 3}};
    for (std::uint32_t i = 0; i < kNumKernelNames; ++i) {
      trace_.strings.push_back(
          fmt::format("_ZN2at6native29vectorized_elementwise_kernel{}ILi4ENS0_13AUnaryFunctorIfffEE"
                      "St5arrayIPcLm{}EEEviT0_T1_",
                      i, i % 5));
    }
    launch_ = intern("cudaLaunchKernel");
    copy_ = intern("cudaMemcpyAsync");
    other_call_ = intern("cudaStreamIsCapturing");
    const StringId stream = intern("stream");
    sync_name_ = stream;
    trace_.threads = {{.tid = 4711, .name = intern("main")},
                      {.tid = 4712, .name = intern("autograd")}};
    trace_.devices = {{.name = intern("NVIDIA H200"), .uuid = intern("GPU-0")}};
    for (std::uint32_t i = 0; i < 90; ++i) {
      trace_.launch_shapes.push_back({.grid_x = 1 + 37 * i,
                                      .grid_y = 1 + i % 3,
                                      .grid_z = 1,
                                      .block_x = 128U << (i % 4),
                                      .block_y = 1,
                                      .block_z = 1,
                                      .registers_per_thread = 16 + 8 * (i % 27),
                                      .dynamic_shared_bytes = 1024 * (i % 48)});
    }
    trace_.ranges.push_back({.name = intern("step")});
    for (const char* phase : {"data", "forward", "backward", "clip", "optimizer"}) {
      trace_.ranges.push_back({.name = intern(phase), .parent = 0});
    }
    plan();
  }

  StringId intern(const std::string& text) {
    trace_.strings.push_back(text);
    return static_cast<StringId>(trace_.strings.size() - 1);
  }

  double normal() { return normal_(random_); }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void plan() {
    for (int i = 0; i < kOpsPerStep; ++i) {
      const Phase phase = i < 10    ? Phase::kData
                          : i < 350 ? Phase::kForward
                          : i < 980 ? Phase::kBackward
                          : i < 990 ? Phase::kClip
                                    : Phase::kOptimizer;
      if (i % kOpsPerModule == 0) {
        trace_.ranges.push_back({.name = intern(fmt::format("layers.{}.module{}", i / 60, i % 60)),
                                 .parent = static_cast<std::uint32_t>(phase)});
      }
      Planned planned;
      planned.op.phase = phase;
      planned.op.range = static_cast<std::uint32_t>(trace_.ranges.size() - 1);
      planned.op.attribution =
          phase == Phase::kBackward ? Attribution::kSequence : Attribution::kRange;
      planned.op.stream_id = 7;
      planned.duration_ns = 1500 * std::exp(std::abs(normal()) * 1.6);
      if (phase == Phase::kData && i < 4) {
        planned.op.kind = GpuOpKind::kCopy;
        planned.op.copy_kind = CopyKind::kHostToDevice;
        planned.op.source_memory = MemoryKind::kPinned;
        planned.op.target_memory = MemoryKind::kDevice;
        planned.op.bytes = 65536 * (i + 1);
        planned.op.stream_id = 13;
      } else if (i % 50 == 49) {
        planned.op.kind = GpuOpKind::kSet;
        planned.op.bytes = 512 + 4096 * below(64);
        planned.op.target_memory = MemoryKind::kDevice;
      } else {
        planned.op.name = 1 + below(kNumKernelNames);
        planned.op.launch_shape = below(90);
      }
      plan_.push_back(planned);
    }
  }

  void add_step(int step_index) {
    const std::int64_t step_start_ns = host_ns_;
    const std::uint32_t step_instance = open_range(0, 0, kNoRow);
    std::uint32_t phase_instance = kNoRow;
    std::uint32_t module_instance = kNoRow;
    Phase phase = Phase::kNone;
    for (int i = 0; i < kOpsPerStep; ++i) {
      const Planned& planned = plan_[static_cast<std::size_t>(i)];
      const std::uint32_t thread = planned.op.phase == Phase::kBackward ? 1 : 0;
      if (planned.op.phase != phase) {
        phase = planned.op.phase;
        close_range(module_instance);
        close_range(phase_instance);
        phase_instance = open_range(static_cast<std::uint32_t>(phase), thread, step_instance);
        module_instance = open_range(planned.op.range, thread, phase_instance);
      } else if (i % kOpsPerModule == 0) {
        close_range(module_instance);
        module_instance = open_range(planned.op.range, thread, phase_instance);
      }
      if (below(100) < 15) add_api(other_call_, 300, thread, module_instance);
      if (below(100) < 55) add_alloc(planned.op, step_index);
      const bool is_copy = planned.op.kind == GpuOpKind::kCopy;
      add_api(is_copy ? copy_ : launch_, 3800, thread, module_instance);

      GpuOp op = planned.op;
      const std::int64_t launched_ns = trace_.apis.back().end_ns + 900 + below(500);
      const std::int64_t idle_ns = 850 + static_cast<std::int64_t>(below(400));
      op.start_ns = std::max(gpu_ns_ + idle_ns, launched_ns);
      const double tail = below(100) == 0 ? 1.5 : 1;
      op.end_ns = op.start_ns +
                  static_cast<std::int64_t>(planned.duration_ns * tail * (1 + 0.025 * normal()));
      op.end_ns = std::max(op.end_ns, op.start_ns + 900);
      op.correlation_id = trace_.apis.back().correlation_id;
      op.step_index = step_index;
      op.micro_step_index = i < 980 ? 0 : -1;
      gpu_ns_ = op.end_ns;
      trace_.gpu_ops.push_back(op);
    }
    close_range(module_instance);
    close_range(phase_instance);
    trace_.syncs.push_back({.start_ns = host_ns_,
                            .end_ns = std::max(gpu_ns_, host_ns_) + 2000 + below(3000),
                            .name = sync_name_,
                            .correlation_id = ++correlation_id_,
                            .stream_id = 7});
    host_ns_ = trace_.syncs.back().end_ns + 20000 + below(9000);
    close_range(step_instance);
    trace_.steps.push_back(
        {.start_ns = step_start_ns, .end_ns = host_ns_, .first_step_number = 10 + step_index});
    host_ns_ += 1000 + below(4000);
  }

  std::uint32_t open_range(std::uint32_t range, std::uint32_t thread, std::uint32_t parent) {
    host_ns_ += 300 + below(500);
    trace_.range_instances.push_back(
        {.start_ns = host_ns_, .range = range, .thread = thread, .parent = parent});
    return static_cast<std::uint32_t>(trace_.range_instances.size() - 1);
  }
  void close_range(std::uint32_t instance) {
    if (instance == kNoRow) return;
    host_ns_ += 200 + below(300);
    trace_.range_instances[instance].end_ns = host_ns_;
  }

  void add_api(StringId name, double mean_ns, std::uint32_t thread, std::uint32_t instance) {
    host_ns_ += 900 + static_cast<std::int64_t>(2500 * std::exp(0.5 * normal()));
    const auto duration_ns = static_cast<std::int64_t>(mean_ns * std::exp(0.25 * normal()));
    correlation_id_ += 1 + below(3);
    trace_.apis.push_back({.start_ns = host_ns_,
                           .end_ns = host_ns_ + duration_ns,
                           .name = name,
                           .correlation_id = correlation_id_,
                           .thread = thread,
                           .range_instance = instance});
    host_ns_ += duration_ns;
  }

  void add_alloc(const GpuOp& op, int step_index) {
    const bool is_free = below(2) == 0 && !blocks_.empty();
    Alloc alloc{.time_ns = host_ns_ - below(800),
                .range = op.range,
                .step_index = step_index,
                .phase = op.phase};
    if (is_free) {
      const std::size_t victim = below(static_cast<std::uint32_t>(blocks_.size()));
      alloc.address = blocks_[victim].address;
      alloc.bytes = blocks_[victim].bytes;
      alloc.action = AllocAction::kFree;
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      alloc.address = 0x7f1200000000 + 512ULL * below(1 << 20);
      alloc.bytes = 512LL << below(14);
      alloc.owner = MemoryOwner::kActivations;
      blocks_.push_back(alloc);
    }
    trace_.allocs.push_back(alloc);
  }

  void add_counters() {
    for (std::uint32_t track = 0; track < 8; ++track) {
      trace_.counter_tracks.push_back(
          {.name = intern(fmt::format("counter{}", track)), .unit = intern(track < 4 ? "%" : "W")});
      double value = 50;
      for (std::int64_t time_ns = 0; time_ns < host_ns_; time_ns += 1'000'000 + below(3000)) {
        value += normal();
        trace_.counter_samples.push_back(
            {.time_ns = time_ns, .value = std::round(value * 1000) / 1000, .track = track});
      }
    }
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  Trace trace_;
  std::vector<Planned> plan_;
  std::vector<Alloc> blocks_;
  StringId launch_ = 0, copy_ = 0, other_call_ = 0, sync_name_ = 0;
  std::int64_t host_ns_ = 5'000'000;
  std::int64_t gpu_ns_ = 0;
  std::uint32_t correlation_id_ = 31000;
};

}  // namespace steplens
