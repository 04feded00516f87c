#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/reports/bundle_builder.h"
#include "tests/reports/trace_builder.h"
#include <fmt/format.h>

#include "harness/files.h"
#include "harness/sweep.h"
#include "harness/trace/trace_writer.h"

namespace steplens {

/// Nanoseconds a kernel of the sample takes; the arm "optimizer=fused" has a shorter optimizer.
struct SampleTimes {
  std::int64_t gemm_ns = 60'000;
  std::int64_t attention_ns = 40'000;
  std::int64_t norm_ns = 10'000;
  std::int64_t optimizer_ns = 90'000;
  std::int64_t gap_ns = 2'000;  // Idle, between any two kernels.
};

inline constexpr int kSampleSteps = 4;
inline constexpr int kSampleBlocks = 3;

/// Steps of forward, backward and optimizer as a GPU ran them; each kernel launched 20 us ahead.
inline Trace sample_trace(const SampleTimes& times, const std::string& arm) {
  TraceBuilder builder;
  builder.trace().info = {
      {"arm", arm}, {"kind", "trace"}, {"start_unix_ns", 1'790'000'000'000'000'000}};
  std::int64_t now_ns = 1'000'000;
  const auto kernel = [&](std::string_view name, std::int64_t duration_ns, int step,
                          const std::string& path) {
    builder.kernel(name, now_ns, now_ns + duration_ns, step, path);
    builder.launched(now_ns - 20'000, now_ns - 16'000);
    now_ns += duration_ns + times.gap_ns;
  };
  for (int step = 0; step < kSampleSteps; ++step) {
    const std::int64_t start_ns = now_ns;
    builder.copy(CopyKind::kHostToDevice, now_ns, now_ns + 8'000, step, "step/data");
    now_ns += 10'000;
    for (const std::string_view phase : {"forward", "backward"}) {
      const std::int64_t phase_start_ns = now_ns;
      const std::int64_t factor = phase == "forward" ? 1 : 2;
      for (int block = 0; block < kSampleBlocks; ++block) {
        const std::string path = fmt::format("step/micro-step/{}/block {}", phase, block);
        kernel("layer_norm_kernel", factor * times.norm_ns, step, path + "/norm");
        kernel("flash_fwd_kernel", factor * times.attention_ns, step, path + "/attention");
        kernel("sm90_xmma_gemm_bf16", factor * times.gemm_ns, step, path + "/mlp");
        kernel("vectorized_elementwise_kernel_add", factor * 12'000, step, path + "/mlp");
      }
      builder.open(fmt::format("step/micro-step/{}", phase), phase_start_ns - 25'000,
                   now_ns - 22'000);
    }
    kernel("multi_tensor_apply_adam", times.optimizer_ns, step, "step/optimizer");
    builder.trace().steps.push_back(
        {.start_ns = start_ns - 25'000, .end_ns = now_ns - 20'000, .first_step_number = step});
    builder.open("step", start_ns - 26'000, now_ns - 18'000);
  }
  return std::move(builder.trace());
}

/// A step whose activations grow in the forward pass and go in the backward pass.
inline Trace sample_memory_trace(const std::string& arm) {
  TraceBuilder builder;
  Trace& trace = builder.trace();
  trace.info = {{"arm", arm}, {"kind", "memory"}};
  constexpr std::int64_t kMiB = 1 << 20;
  std::int64_t now_ns = 0;
  std::uint64_t address = 1 << 20;
  const auto act = [&](AllocAction action, std::uint64_t at, std::int64_t num_bytes,
                       MemoryOwner owner, Phase phase, int step) {
    trace.allocs.push_back({.time_ns = now_ns += 10'000,
                            .address = at,
                            .bytes = num_bytes,
                            .step_index = step,
                            .action = action,
                            .owner = owner,
                            .phase = phase});
  };
  act(AllocAction::kSegmentAlloc, address, 2048 * kMiB, MemoryOwner::kUnknown, Phase::kNone, -1);
  act(AllocAction::kAlloc, address += 512, 475 * kMiB, MemoryOwner::kParameters, Phase::kNone, -1);
  act(AllocAction::kAlloc, address += 512, 320 * kMiB, MemoryOwner::kOptimizerState, Phase::kNone,
      -1);
  for (int step = 0; step < 2; ++step) {
    const std::int64_t start_ns = now_ns;
    std::array<std::uint64_t, 12> activations = {};
    for (std::uint64_t& activation : activations) {
      act(AllocAction::kAlloc, activation = address += 512, 64 * kMiB, MemoryOwner::kActivations,
          Phase::kForward, step);
    }
    for (const std::uint64_t activation : activations) {
      act(AllocAction::kFree, activation, 64 * kMiB, MemoryOwner::kUnknown, Phase::kBackward, step);
    }
    trace.steps.push_back(
        {.start_ns = start_ns, .end_ns = now_ns + 5'000, .first_step_number = step});
  }
  return std::move(trace);
}

/// Baseline, optimizer=fused (faster) and checkpoint=full (the same), eight rounds, with a trace of
/// each and a memory run of the baseline.
inline void write_sample_bundle(const std::filesystem::path& folder) {
  BundleBuilder builder = eight_rounds();
  builder.manifest().gpu_name = "NVIDIA H200";
  for (const std::string arm : {"baseline", "optimizer=fused", "checkpoint=full"}) {
    builder.add_block(arm, BlockKind::kTrace, -1, 1'000'000);
    if (arm == "baseline") builder.add_block(arm, BlockKind::kMemory, -1, 1'000'000);
  }
  builder.write(folder);
  for (const BlockEntry& entry : builder.manifest().blocks) {
    if (!writes_trace(entry.kind)) continue;
    SampleTimes times;
    if (entry.arm == "optimizer=fused") times.optimizer_ns = 50'000;
    if (entry.arm == "checkpoint=full") times.gemm_ns = 75'000;
    write_trace(block_path(folder, entry).parent_path() / kTraceFileName,
                entry.kind == BlockKind::kMemory ? sample_memory_trace(entry.arm)
                                                 : sample_trace(times, entry.arm));
  }
}

/// optimizer=fused at four sequence lengths: slower, faster, faster still, and one whose matrix has
/// not begun.
inline void write_sample_sweep(const std::filesystem::path& folder) {
  const Sweep sweep = {.key = "sequence_length", .values = {"512", "1024", "2048", "4096"}};
  std::filesystem::create_directories(folder);
  write_json_atomically(folder / kSweepFileName, to_json(sweep));
  constexpr std::array kFactors = {1.06, 0.97, 0.9};
  for (std::size_t i = 0; i < kFactors.size(); ++i) {
    BundleBuilder builder;
    builder.manifest().gpu_name = "NVIDIA H200";
    builder.manifest().baseline.sequence_length = std::stoll(sweep.values[i]);
    builder.manifest().arms.front().config = builder.manifest().baseline;
    builder.add_arm("optimizer", "fused");
    for (int round = 0; round < 8; ++round) {
      const auto factor = kFactors.at(i) + 0.002 * (round % 4);
      builder.add_round({{"baseline", 1'000'000 + 700 * (round % 3)},
                         {"optimizer=fused", std::llround(factor * 1'000'000)}});
    }
    builder.write(folder / point_folder(sweep, sweep.values[i]));
  }
}

}  // namespace steplens
