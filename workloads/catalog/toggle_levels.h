#pragma once

#include <cstdint>
#include <string_view>

#include "harness/run_config.h"
#include "harness/toggle.h"
#include "workloads/catalog/level_reasons.h"

/// The levels of each toggle: how one edits the config, and why it cannot run.
namespace steplens::levels {

template <std::int64_t kMebibytes>
constexpr Level bucket_level(std::string_view name) {
  return {.name = name,
          .apply = [](RunConfig& config) { config.bucket_mb = kMebibytes; },
          .why_not =
              [](const RunConfig& config) {
                // The default says nothing where there is nothing to send.
                return kMebibytes == RunConfig{}.bucket_mb ? std::string_view()
                                                           : reasons::one_rank(config);
              }};
}

template <std::int64_t kAccumulation>
constexpr Level accumulation_level(std::string_view name) {
  return {
      .name = name,
      .apply = [](RunConfig& config) { config.num_accumulation = kAccumulation; },
      .why_not =
          [](const RunConfig& config) { return reasons::no_accumulation(config, kAccumulation); }};
}

// ATen has all logits at once, so that "all" fits loss=aten too.
template <std::int64_t kRows>
constexpr Level loss_rows_level(std::string_view name) {
  constexpr bool is_default = kRows == RunConfig{}.num_loss_rows;
  return {.name = name,
          .apply = [](RunConfig& config) { config.num_loss_rows = kRows; },
          .why_not = is_default   ? nullptr
                     : kRows == 0 ? reasons::needs_cuda
                                  : reasons::no_loss_rows};
}

// A part of the model by ATen's operators, or by the kernels of kernels/.
template <Operators RunConfig::* kMember, Operators kOperators>
constexpr Level operators_level() {
  constexpr bool is_fused = kOperators == Operators::kFused;
  return {.name = is_fused ? "fused" : "aten",
          .apply = [](RunConfig& config) { config.*kMember = kOperators; },
          .why_not = is_fused ? reasons::no_fused_operators : nullptr};
}

inline constexpr Level kAttention[] = {
    {.name = "math", .apply = [](RunConfig& c) { c.attention = Attention::kMath; }},
    {.name = "mem_efficient",
     .apply = [](RunConfig& c) { c.attention = Attention::kMemEfficient; },
     .why_not = reasons::no_mem_efficient},
    {.name = "flash",
     .apply = [](RunConfig& c) { c.attention = Attention::kFlash; },
     .why_not = reasons::no_flash},
    {.name = "cudnn",
     .apply = [](RunConfig& c) { c.attention = Attention::kCudnn; },
     .why_not = reasons::no_cudnn},
};
inline constexpr Level kAccumulation[] = {
    accumulation_level<1>("1"), accumulation_level<2>("2"),   accumulation_level<4>("4"),
    accumulation_level<8>("8"), accumulation_level<16>("16"),
};
inline constexpr Level kGraph[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.graph = false; }},
    {.name = "on", .apply = [](RunConfig& c) { c.graph = true; }, .why_not = reasons::no_graph},
};
inline constexpr Level kCompile[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.compile = Compile::kOff; }},
    {.name = "aoti", .apply = [](RunConfig& c) { c.compile = Compile::kAoti; }},
};
inline constexpr Level kOptimizer[] = {
    {.name = "loop", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kLoop; }},
    {.name = "foreach", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kForeach; }},
    {.name = "fused", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kFused; }},
    {.name = "multi_tensor",
     .apply = [](RunConfig& c) { c.optimizer = Optimizer::kMultiTensor; },
     .why_not = reasons::needs_cuda},
};
inline constexpr Level kWeights[] = {
    {.name = "fp32", .apply = [](RunConfig& c) { c.weights = Weights::kFp32; }},
    {.name = "bf16_master",
     .apply = [](RunConfig& c) { c.weights = Weights::kBf16Master; },
     .why_not = reasons::no_bf16_master},
};
inline constexpr Level kNorm[] = {
    operators_level<&RunConfig::norm, Operators::kAten>(),
    operators_level<&RunConfig::norm, Operators::kFused>(),
};
inline constexpr Level kRope[] = {
    operators_level<&RunConfig::rope, Operators::kAten>(),
    operators_level<&RunConfig::rope, Operators::kFused>(),
};
inline constexpr Level kMlp[] = {
    operators_level<&RunConfig::mlp, Operators::kAten>(),
    operators_level<&RunConfig::mlp, Operators::kFused>(),
};
inline constexpr Level kLoss[] = {
    operators_level<&RunConfig::loss, Operators::kAten>(),
    operators_level<&RunConfig::loss, Operators::kFused>(),
};
inline constexpr Level kLossRows[] = {
    loss_rows_level<2048>("2048"),   loss_rows_level<4096>("4096"),   loss_rows_level<8192>("8192"),
    loss_rows_level<16384>("16384"), loss_rows_level<32768>("32768"), loss_rows_level<0>("all"),
};
inline constexpr Level kEmbedding[] = {
    operators_level<&RunConfig::embedding, Operators::kAten>(),
    operators_level<&RunConfig::embedding, Operators::kFused>(),
};
inline constexpr Level kResidual[] = {
    {.name = "aten", .apply = [](RunConfig& c) { c.residual = Operators::kAten; }},
    {.name = "fused",
     .apply = [](RunConfig& c) { c.residual = Operators::kFused; },
     .why_not = reasons::no_fused_residual},
};
inline constexpr Level kGemm[] = {
    {.name = "heuristic", .apply = [](RunConfig& c) { c.gemm = Gemm::kHeuristic; }},
    {.name = "tuned",
     .apply = [](RunConfig& c) { c.gemm = Gemm::kTuned; },
     .why_not = reasons::no_tuned_gemm},
};
inline constexpr Level kPrecision[] = {
    {.name = "fp32", .apply = [](RunConfig& c) { c.precision = Precision::kFp32; }},
    {.name = "tf32",
     .apply = [](RunConfig& c) { c.precision = Precision::kTf32; },
     .why_not = reasons::needs_cuda},
    {.name = "bf16",
     .apply = [](RunConfig& c) { c.precision = Precision::kBf16; },
     .why_not = reasons::no_bf16},
    {.name = "fp16",
     .apply = [](RunConfig& c) { c.precision = Precision::kFp16; },
     .why_not = reasons::no_fp16},
};
inline constexpr Level kCheckpoint[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.checkpoint = Checkpoint::kOff; }},
    {.name = "full", .apply = [](RunConfig& c) { c.checkpoint = Checkpoint::kFull; }},
};
inline constexpr Level kData[] = {
    {.name = "sync", .apply = [](RunConfig& c) { c.data = DataPath::kSync; }},
    {.name = "prefetch", .apply = [](RunConfig& c) { c.data = DataPath::kPrefetch; }},
    {.name = "pinned",
     .apply = [](RunConfig& c) { c.data = DataPath::kPinned; },
     .why_not = reasons::needs_cuda},
};
inline constexpr Level kBatching[] = {
    {.name = "packed", .apply = [](RunConfig& c) { c.batching = Batching::kPacked; }},
    {.name = "padded", .apply = [](RunConfig& c) { c.batching = Batching::kPadded; }},
    {.name = "bucketed", .apply = [](RunConfig& c) { c.batching = Batching::kBucketed; }},
};
inline constexpr Level kNoSync[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.no_sync = false; }},
    {.name = "on", .apply = [](RunConfig& c) { c.no_sync = true; }, .why_not = reasons::no_no_sync},
};
inline constexpr Level kBucketMb[] = {
    bucket_level<1>("1"),
    bucket_level<5>("5"),
    bucket_level<25>("25"),
    bucket_level<100>("100"),
};
inline constexpr Level kCommDtype[] = {
    {.name = "fp32", .apply = [](RunConfig& c) { c.comm_dtype = CommDtype::kFp32; }},
    {.name = "bf16",
     .apply = [](RunConfig& c) { c.comm_dtype = CommDtype::kBf16; },
     .why_not = reasons::one_rank},
    {.name = "fp16",
     .apply = [](RunConfig& c) { c.comm_dtype = CommDtype::kFp16; },
     .why_not = reasons::one_rank},
};
inline constexpr Level kOverlap[] = {
    {.name = "on", .apply = [](RunConfig& c) { c.overlap = true; }},
    {.name = "off", .apply = [](RunConfig& c) { c.overlap = false; }, .why_not = reasons::one_rank},
};
inline constexpr Level kReducer[] = {
    {.name = "several_ranks", .apply = [](RunConfig& c) { c.reducer = ReducerUse::kSeveralRanks; }},
    {.name = "always",
     .apply = [](RunConfig& c) { c.reducer = ReducerUse::kAlways; },
     .why_not = reasons::several_ranks},
};
inline constexpr Level kSyncEveryMicroStep[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.sync_every_micro_step = false; }},
    {.name = "on", .apply = [](RunConfig& c) { c.sync_every_micro_step = true; }},
};
inline constexpr Level kFrozen[] = {
    {.name = "none", .apply = [](RunConfig& c) { c.frozen = Frozen::kNone; }},
    {.name = "embeddings", .apply = [](RunConfig& c) { c.frozen = Frozen::kEmbeddings; }},
};
inline constexpr Level kAllocator[] = {
    {.name = "default", .apply = [](RunConfig& c) { c.allocator = Allocator::kDefault; }},
    {.name = "expandable_segments",
     .apply = [](RunConfig& c) { c.allocator = Allocator::kExpandableSegments; },
     .why_not = reasons::needs_cuda},
};
inline constexpr Level kInstrumentation[] = {
    {.name = "full", .apply = [](RunConfig& c) { c.instrumentation = Instrumentation::kFull; }},
    {.name = "minimal",
     .apply = [](RunConfig& c) { c.instrumentation = Instrumentation::kMinimal; }},
};
inline constexpr Level kTracing[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.tracing = Tracing::kOff; }},
    {.name = "null",
     .apply = [](RunConfig& c) { c.tracing = Tracing::kNull; },
     .why_not = reasons::needs_cuda},
    {.name = "full",
     .apply = [](RunConfig& c) { c.tracing = Tracing::kFull; },
     .why_not = reasons::needs_cuda},
};
inline constexpr Level kInjectedSpin[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.injected_spin_ns = 0; }},
    {.name = "500us", .apply = [](RunConfig& c) { c.injected_spin_ns = 500'000; }},
    {.name = "1ms", .apply = [](RunConfig& c) { c.injected_spin_ns = 1'000'000; }},
    {.name = "5ms", .apply = [](RunConfig& c) { c.injected_spin_ns = 5'000'000; }},
};

}  // namespace steplens::levels
