#include "workloads/catalog/toggles.h"

#include <algorithm>

namespace steplens {
namespace {

// ---- reasons why a level cannot run ----

std::string_view needs_cuda(const RunConfig& config) {
  return config.device == Device::kCuda ? "" : "needs a CUDA device; this runs on the CPU";
}

std::string_view no_mem_efficient(const RunConfig& config) {
  if (config.device != Device::kCuda) return needs_cuda(config);
  if (config.shape.num_heads != config.shape.num_kv_heads) {
    return "the memory-efficient kernel takes no grouped query heads (num_kv_heads < num_heads)";
  }
  return "";
}

std::string_view no_flash(const RunConfig& config) {
  if (config.device != Device::kCuda) return "";
  if (config.precision == Precision::kFp32 || config.precision == Precision::kTf32) {
    return "the flash kernel takes bf16 or fp16 only; set precision=bf16";
  }
  if (config.shape.head_dim > 256) return "the flash kernel takes head_dim <= 256";
  return "";
}

std::string_view no_cudnn(const RunConfig& config) {
  if (config.device != Device::kCuda) return needs_cuda(config);
  if (config.precision == Precision::kFp32 || config.precision == Precision::kTf32) {
    return "cuDNN attention takes bf16 or fp16 only; set precision=bf16";
  }
  if (config.shape.head_dim % 8 != 0 || config.shape.head_dim > 256) {
    return "cuDNN attention takes head_dim <= 256 that is a multiple of 8";
  }
  return "";
}

std::string_view no_bf16(const RunConfig& config) {
  // Without AVX512_BF16 or AMX a bf16 product on a CPU is emulated, 22 times slower than fp32.
  return config.device == Device::kCuda ? "" : "bf16 on a CPU is emulated unless it has AMX";
}

std::string_view no_fp16(const RunConfig& config) {
  return config.device == Device::kCuda ? ""
                                        : "fp16 training with loss scaling needs a CUDA device";
}

std::string_view no_fused_operators(const RunConfig& config) {
  if (config.device != Device::kCuda) return needs_cuda(config);
  return config.precision == Precision::kFp16
             ? "the fused operators take bf16 and fp32; precision=fp16 has none"
             : "";
}

std::string_view no_bf16_master(const RunConfig& config) {
  return config.precision == Precision::kBf16 ? "" : "bf16 weights need precision=bf16";
}

std::string_view no_graph(const RunConfig& config) {
  return config.device == Device::kCuda ? "" : "CUDA graphs need a CUDA device";
}

std::string_view no_accumulation(const RunConfig& config, std::int64_t accumulation) {
  const std::int64_t parts = accumulation * config.world_size;
  return config.accumulation_holds == AccumulationHolds::kMicroBatch ||
                 config.global_batch_size % parts == 0
             ? ""
             : "global_batch is not a multiple of this accumulation x world_size";
}

std::string_view one_rank(const RunConfig& config) {
  return config.world_size > 1 ? "" : "one rank: no gradients are exchanged (--ranks 2)";
}

std::string_view no_no_sync(const RunConfig& config) {
  if (config.world_size == 1) return one_rank(config);
  return config.num_accumulation > 1
             ? ""
             : "one micro-step a step, which synchronises in any case; set accumulation";
}

template <std::int64_t kMebibytes>
constexpr Level bucket_level(std::string_view name) {
  return {.name = name,
          .apply = [](RunConfig& config) { config.bucket_mb = kMebibytes; },
          .why_not =
              [](const RunConfig& config) {
                // The default says nothing where there is nothing to send.
                return kMebibytes == RunConfig{}.bucket_mb ? std::string_view() : one_rank(config);
              }};
}

std::string_view several_ranks(const RunConfig& config) {
  return config.world_size == 1 ? "" : "several ranks: their gradients pass the Reducer anyhow";
}

template <std::int64_t kAccumulation>
constexpr Level accumulation_level(std::string_view name) {
  return {
      .name = name,
      .apply = [](RunConfig& config) { config.num_accumulation = kAccumulation; },
      .why_not = [](const RunConfig& config) { return no_accumulation(config, kAccumulation); }};
}

// A part of the model by ATen's operators, or by the kernels of kernels/.
template <Operators RunConfig::* kMember, Operators kOperators>
constexpr Level operators_level() {
  constexpr bool is_fused = kOperators == Operators::kFused;
  return {.name = is_fused ? "fused" : "aten",
          .apply = [](RunConfig& config) { config.*kMember = kOperators; },
          .why_not = is_fused ? no_fused_operators : nullptr};
}

// ---- levels ----

constexpr Level kAttention[] = {
    {.name = "math", .apply = [](RunConfig& c) { c.attention = Attention::kMath; }},
    {.name = "mem_efficient",
     .apply = [](RunConfig& c) { c.attention = Attention::kMemEfficient; },
     .why_not = no_mem_efficient},
    {.name = "flash",
     .apply = [](RunConfig& c) { c.attention = Attention::kFlash; },
     .why_not = no_flash},
    {.name = "cudnn",
     .apply = [](RunConfig& c) { c.attention = Attention::kCudnn; },
     .why_not = no_cudnn},
};
constexpr Level kAccumulation[] = {
    accumulation_level<1>("1"), accumulation_level<2>("2"),   accumulation_level<4>("4"),
    accumulation_level<8>("8"), accumulation_level<16>("16"),
};
constexpr Level kGraph[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.graph = false; }},
    {.name = "on", .apply = [](RunConfig& c) { c.graph = true; }, .why_not = no_graph},
};
constexpr Level kCompile[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.compile = Compile::kOff; }},
    {.name = "aoti", .apply = [](RunConfig& c) { c.compile = Compile::kAoti; }},
};
constexpr Level kOptimizer[] = {
    {.name = "loop", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kLoop; }},
    {.name = "foreach", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kForeach; }},
    {.name = "fused", .apply = [](RunConfig& c) { c.optimizer = Optimizer::kFused; }},
    {.name = "multi_tensor",
     .apply = [](RunConfig& c) { c.optimizer = Optimizer::kMultiTensor; },
     .why_not = needs_cuda},
};
constexpr Level kWeights[] = {
    {.name = "fp32", .apply = [](RunConfig& c) { c.weights = Weights::kFp32; }},
    {.name = "bf16_master",
     .apply = [](RunConfig& c) { c.weights = Weights::kBf16Master; },
     .why_not = no_bf16_master},
};
constexpr Level kNorm[] = {
    operators_level<&RunConfig::norm, Operators::kAten>(),
    operators_level<&RunConfig::norm, Operators::kFused>(),
};
constexpr Level kRope[] = {
    operators_level<&RunConfig::rope, Operators::kAten>(),
    operators_level<&RunConfig::rope, Operators::kFused>(),
};
constexpr Level kMlp[] = {
    operators_level<&RunConfig::mlp, Operators::kAten>(),
    operators_level<&RunConfig::mlp, Operators::kFused>(),
};
constexpr Level kLoss[] = {
    operators_level<&RunConfig::loss, Operators::kAten>(),
    operators_level<&RunConfig::loss, Operators::kFused>(),
};
constexpr Level kEmbedding[] = {
    operators_level<&RunConfig::embedding, Operators::kAten>(),
    operators_level<&RunConfig::embedding, Operators::kFused>(),
};
constexpr Level kPrecision[] = {
    {.name = "fp32", .apply = [](RunConfig& c) { c.precision = Precision::kFp32; }},
    {.name = "tf32",
     .apply = [](RunConfig& c) { c.precision = Precision::kTf32; },
     .why_not = needs_cuda},
    {.name = "bf16",
     .apply = [](RunConfig& c) { c.precision = Precision::kBf16; },
     .why_not = no_bf16},
    {.name = "fp16",
     .apply = [](RunConfig& c) { c.precision = Precision::kFp16; },
     .why_not = no_fp16},
};
constexpr Level kCheckpoint[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.checkpoint = Checkpoint::kOff; }},
    {.name = "full", .apply = [](RunConfig& c) { c.checkpoint = Checkpoint::kFull; }},
};
constexpr Level kData[] = {
    {.name = "sync", .apply = [](RunConfig& c) { c.data = DataPath::kSync; }},
    {.name = "prefetch", .apply = [](RunConfig& c) { c.data = DataPath::kPrefetch; }},
    {.name = "pinned",
     .apply = [](RunConfig& c) { c.data = DataPath::kPinned; },
     .why_not = needs_cuda},
};
constexpr Level kBatching[] = {
    {.name = "packed", .apply = [](RunConfig& c) { c.batching = Batching::kPacked; }},
    {.name = "padded", .apply = [](RunConfig& c) { c.batching = Batching::kPadded; }},
    {.name = "bucketed", .apply = [](RunConfig& c) { c.batching = Batching::kBucketed; }},
};
constexpr Level kNoSync[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.no_sync = false; }},
    {.name = "on", .apply = [](RunConfig& c) { c.no_sync = true; }, .why_not = no_no_sync},
};
constexpr Level kBucketMb[] = {
    bucket_level<1>("1"),
    bucket_level<5>("5"),
    bucket_level<25>("25"),
    bucket_level<100>("100"),
};
constexpr Level kCommDtype[] = {
    {.name = "fp32", .apply = [](RunConfig& c) { c.comm_dtype = CommDtype::kFp32; }},
    {.name = "bf16",
     .apply = [](RunConfig& c) { c.comm_dtype = CommDtype::kBf16; },
     .why_not = one_rank},
    {.name = "fp16",
     .apply = [](RunConfig& c) { c.comm_dtype = CommDtype::kFp16; },
     .why_not = one_rank},
};
constexpr Level kOverlap[] = {
    {.name = "on", .apply = [](RunConfig& c) { c.overlap = true; }},
    {.name = "off", .apply = [](RunConfig& c) { c.overlap = false; }, .why_not = one_rank},
};
constexpr Level kReducer[] = {
    {.name = "several_ranks", .apply = [](RunConfig& c) { c.reducer = ReducerUse::kSeveralRanks; }},
    {.name = "always",
     .apply = [](RunConfig& c) { c.reducer = ReducerUse::kAlways; },
     .why_not = several_ranks},
};
constexpr Level kSyncEveryMicroStep[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.sync_every_micro_step = false; }},
    {.name = "on", .apply = [](RunConfig& c) { c.sync_every_micro_step = true; }},
};
constexpr Level kFrozen[] = {
    {.name = "none", .apply = [](RunConfig& c) { c.frozen = Frozen::kNone; }},
    {.name = "embeddings", .apply = [](RunConfig& c) { c.frozen = Frozen::kEmbeddings; }},
};
constexpr Level kAllocator[] = {
    {.name = "default", .apply = [](RunConfig& c) { c.allocator = Allocator::kDefault; }},
    {.name = "expandable_segments",
     .apply = [](RunConfig& c) { c.allocator = Allocator::kExpandableSegments; },
     .why_not = needs_cuda},
};
constexpr Level kInstrumentation[] = {
    {.name = "full", .apply = [](RunConfig& c) { c.instrumentation = Instrumentation::kFull; }},
    {.name = "minimal",
     .apply = [](RunConfig& c) { c.instrumentation = Instrumentation::kMinimal; }},
};
constexpr Level kTracing[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.tracing = Tracing::kOff; }},
    {.name = "null",
     .apply = [](RunConfig& c) { c.tracing = Tracing::kNull; },
     .why_not = needs_cuda},
    {.name = "full",
     .apply = [](RunConfig& c) { c.tracing = Tracing::kFull; },
     .why_not = needs_cuda},
};
constexpr Level kInjectedSpin[] = {
    {.name = "off", .apply = [](RunConfig& c) { c.injected_spin_ns = 0; }},
    {.name = "500us", .apply = [](RunConfig& c) { c.injected_spin_ns = 500'000; }},
    {.name = "1ms", .apply = [](RunConfig& c) { c.injected_spin_ns = 1'000'000; }},
    {.name = "5ms", .apply = [](RunConfig& c) { c.injected_spin_ns = 5'000'000; }},
};

// ---- proof of effect: per optimizer step, operator counts of the pilot (workloads/evidence.h)
// and, with the prefix "trace.", what the arm's trace shows (reports/trace_evidence.h) ----

constexpr std::string_view kFlashCpu = "aten::_scaled_dot_product_flash_attention_for_cpu";
constexpr std::string_view kFlash = "aten::_scaled_dot_product_flash_attention";
constexpr std::string_view kMemEfficient = "aten::_scaled_dot_product_efficient_attention";
constexpr std::string_view kCudnn = "aten::_scaled_dot_product_cudnn_attention";
constexpr std::string_view kMath = "aten::_scaled_dot_product_attention_math";
constexpr std::string_view kFused = "aten::_fused_adamw_";
constexpr std::string_view kLerp = "aten::lerp_";
constexpr std::string_view kForeachLerp = "aten::_foreach_lerp_";
constexpr std::string_view kAllReduce = "c10d::allreduce_";
constexpr std::string_view kRmsNorm = "aten::rms_norm";
constexpr std::string_view kSilu = "aten::silu";
constexpr std::string_view kCrossEntropy = "aten::cross_entropy_loss";
constexpr std::string_view kEmbeddingBackward = "aten::embedding_dense_backward";
constexpr std::string_view kAllReduceBytes = "all_reduce_bytes";
constexpr std::string_view kAllReduceKernels = "trace.kernels_communication";

constexpr EvidenceRule kAttentionEvidence[] = {
    {"math", Device::kCpu, kMath, Claim::kPresent},
    {"math", Device::kCpu, kFlashCpu, Claim::kAbsent},
    {"flash", Device::kCpu, kFlashCpu, Claim::kPresent},
    {"flash", Device::kCpu, kMath, Claim::kAbsent},
    {"math", Device::kCuda, kMath, Claim::kPresent},
    {"math", Device::kCuda, kFlash, Claim::kAbsent},
    {"math", Device::kCuda, kCudnn, Claim::kAbsent},
    {"math", Device::kCuda, kMemEfficient, Claim::kAbsent},
    {"mem_efficient", Device::kCuda, kMemEfficient, Claim::kPresent},
    {"mem_efficient", Device::kCuda, kFlash, Claim::kAbsent},
    {"mem_efficient", Device::kCuda, kCudnn, Claim::kAbsent},
    {"flash", Device::kCuda, kFlash, Claim::kPresent},
    {"flash", Device::kCuda, kCudnn, Claim::kAbsent},
    {"flash", Device::kCuda, kMath, Claim::kAbsent},
    {"cudnn", Device::kCuda, kCudnn, Claim::kPresent},
    {"cudnn", Device::kCuda, kFlash, Claim::kAbsent},
    {"cudnn", Device::kCuda, kMath, Claim::kAbsent},
    {"math", Device::kCuda, "trace.attention_softmax", Claim::kPresent},
    {"math", Device::kCuda, "trace.attention_flash", Claim::kAbsent},
    {"math", Device::kCuda, "trace.attention_cudnn", Claim::kAbsent},
    {"math", Device::kCuda, "trace.attention_mem_efficient", Claim::kAbsent},
    {"mem_efficient", Device::kCuda, "trace.attention_mem_efficient", Claim::kPresent},
    {"mem_efficient", Device::kCuda, "trace.attention_flash", Claim::kAbsent},
    {"mem_efficient", Device::kCuda, "trace.attention_softmax", Claim::kAbsent},
    {"flash", Device::kCuda, "trace.attention_flash", Claim::kPresent},
    {"flash", Device::kCuda, "trace.attention_cudnn", Claim::kAbsent},
    {"flash", Device::kCuda, "trace.attention_softmax", Claim::kAbsent},
    {"cudnn", Device::kCuda, "trace.attention_cudnn", Claim::kPresent},
    {"cudnn", Device::kCuda, "trace.attention_flash", Claim::kAbsent},
    {"cudnn", Device::kCuda, "trace.attention_softmax", Claim::kAbsent},
};
constexpr EvidenceRule kAccumulationEvidence[] = {
    {"1", Device::kCpu, "forward_passes", Claim::kEqualsLevel},
    {"2", Device::kCpu, "forward_passes", Claim::kEqualsLevel},
    {"4", Device::kCpu, "forward_passes", Claim::kEqualsLevel},
    {"8", Device::kCpu, "forward_passes", Claim::kEqualsLevel},
    {"16", Device::kCpu, "forward_passes", Claim::kEqualsLevel},
    {"1", Device::kCuda, "forward_passes", Claim::kEqualsLevel},
    {"2", Device::kCuda, "forward_passes", Claim::kEqualsLevel},
    {"4", Device::kCuda, "forward_passes", Claim::kEqualsLevel},
    {"8", Device::kCuda, "forward_passes", Claim::kEqualsLevel},
    {"16", Device::kCuda, "forward_passes", Claim::kEqualsLevel},
    {"1", Device::kCpu, "trace.forward_ranges", Claim::kEqualsLevel},
    {"2", Device::kCpu, "trace.forward_ranges", Claim::kEqualsLevel},
    {"4", Device::kCpu, "trace.forward_ranges", Claim::kEqualsLevel},
    {"8", Device::kCpu, "trace.forward_ranges", Claim::kEqualsLevel},
    {"16", Device::kCpu, "trace.forward_ranges", Claim::kEqualsLevel},
    {"1", Device::kCuda, "trace.forward_ranges", Claim::kEqualsLevel},
    {"2", Device::kCuda, "trace.forward_ranges", Claim::kEqualsLevel},
    {"4", Device::kCuda, "trace.forward_ranges", Claim::kEqualsLevel},
    {"8", Device::kCuda, "trace.forward_ranges", Claim::kEqualsLevel},
    {"16", Device::kCuda, "trace.forward_ranges", Claim::kEqualsLevel},
};
constexpr EvidenceRule kGraphEvidence[] = {
    {"on", Device::kCuda, "graph_replays", Claim::kPresent},
    {"on", Device::kCuda, "operators", Claim::kFewerThanReference},
    {"on", Device::kCuda, "trace.graph_launches", Claim::kPresent},
    {"on", Device::kCuda, "trace.launch_calls", Claim::kFewerThanReference},
};
constexpr EvidenceRule kCompileEvidence[] = {
    {"aoti", Device::kCpu, "package_runs", Claim::kPresent},
    {"aoti", Device::kCpu, "operators", Claim::kFewerThanReference},
    {"aoti", Device::kCuda, "package_runs", Claim::kPresent},
    {"aoti", Device::kCuda, "operators", Claim::kFewerThanReference},
    {"aoti", Device::kCuda, "trace.triton_kernels", Claim::kPresent},
    {"off", Device::kCpu, "package_runs", Claim::kAbsent},
    {"off", Device::kCuda, "package_runs", Claim::kAbsent},
    {"off", Device::kCuda, "trace.triton_kernels", Claim::kAbsent},
};
constexpr EvidenceRule kOptimizerEvidence[] = {
    {"loop", Device::kCpu, kLerp, Claim::kPresent},
    {"loop", Device::kCpu, kForeachLerp, Claim::kAbsent},
    {"loop", Device::kCuda, kLerp, Claim::kPresent},
    {"loop", Device::kCuda, kForeachLerp, Claim::kAbsent},
    {"foreach", Device::kCpu, kForeachLerp, Claim::kPresent},
    {"foreach", Device::kCuda, kForeachLerp, Claim::kPresent},
    {"fused", Device::kCpu, kFused, Claim::kPresent},
    {"fused", Device::kCpu, kForeachLerp, Claim::kAbsent},
    {"fused", Device::kCuda, kFused, Claim::kPresent},
    {"fused", Device::kCuda, kForeachLerp, Claim::kAbsent},
    {"multi_tensor", Device::kCuda, "multi_tensor_updates", Claim::kPresent},
    {"multi_tensor", Device::kCuda, kFused, Claim::kAbsent},
    {"multi_tensor", Device::kCuda, kForeachLerp, Claim::kAbsent},
    {"loop", Device::kCuda, "trace.optimizer_kernels", Claim::kMoreThanReference},
    {"fused", Device::kCuda, "trace.optimizer_kernels", Claim::kOtherThanReference},
    {"multi_tensor", Device::kCuda, "trace.optimizer_kernels", Claim::kFewerThanReference},
    {"multi_tensor", Device::kCuda, "trace.adamw_fused", Claim::kPresent},
};
constexpr EvidenceRule kWeightsEvidence[] = {
    {"bf16_master", Device::kCuda, "bf16_parameters", Claim::kPresent},
    {"bf16_master", Device::kCuda, "aten::_to_copy", Claim::kFewerThanReference},
    {"bf16_master", Device::kCuda, "trace.kernels_copy", Claim::kFewerThanReference},
    {"fp32", Device::kCuda, "bf16_parameters", Claim::kAbsent},
};
constexpr EvidenceRule kNormEvidence[] = {
    {"fused", Device::kCuda, "fused_norms", Claim::kPresent},
    {"fused", Device::kCuda, kRmsNorm, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.norm_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.norm_aten", Claim::kAbsent},
    {"aten", Device::kCuda, "fused_norms", Claim::kAbsent},
    {"aten", Device::kCuda, kRmsNorm, Claim::kPresent},
    {"aten", Device::kCuda, "trace.norm_fused", Claim::kAbsent},
};
constexpr EvidenceRule kRopeEvidence[] = {
    {"fused", Device::kCuda, "fused_ropes", Claim::kPresent},
    {"fused", Device::kCuda, "aten::cat", Claim::kFewerThanReference},
    {"fused", Device::kCuda, "trace.rope_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.kernels", Claim::kFewerThanReference},
    {"aten", Device::kCuda, "fused_ropes", Claim::kAbsent},
    {"aten", Device::kCuda, "trace.rope_fused", Claim::kAbsent},
};
constexpr EvidenceRule kMlpEvidence[] = {
    {"fused", Device::kCuda, "fused_mlps", Claim::kPresent},
    {"fused", Device::kCuda, kSilu, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.mlp_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.silu_aten", Claim::kAbsent},
    {"aten", Device::kCuda, "fused_mlps", Claim::kAbsent},
    {"aten", Device::kCuda, kSilu, Claim::kPresent},
    {"aten", Device::kCuda, "trace.mlp_fused", Claim::kAbsent},
};
constexpr EvidenceRule kLossEvidence[] = {
    {"fused", Device::kCuda, "fused_losses", Claim::kPresent},
    {"fused", Device::kCuda, kCrossEntropy, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.loss_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.loss_aten", Claim::kAbsent},
    {"aten", Device::kCuda, "fused_losses", Claim::kAbsent},
    {"aten", Device::kCuda, kCrossEntropy, Claim::kPresent},
    {"aten", Device::kCuda, "trace.loss_fused", Claim::kAbsent},
};
constexpr EvidenceRule kEmbeddingEvidence[] = {
    {"fused", Device::kCuda, "fused_embedding_gradients", Claim::kPresent},
    {"fused", Device::kCuda, kEmbeddingBackward, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.embedding_fused", Claim::kPresent},
    {"aten", Device::kCuda, "fused_embedding_gradients", Claim::kAbsent},
    {"aten", Device::kCuda, kEmbeddingBackward, Claim::kPresent},
    {"aten", Device::kCuda, "trace.embedding_fused", Claim::kAbsent},
};
constexpr EvidenceRule kPrecisionEvidence[] = {
    {"fp32", Device::kCuda, "matmuls_fp32", Claim::kPresent},
    {"fp32", Device::kCuda, "matmuls_bf16", Claim::kAbsent},
    {"tf32", Device::kCuda, "matmuls_tf32", Claim::kPresent},
    {"tf32", Device::kCuda, "matmuls_bf16", Claim::kAbsent},
    {"bf16", Device::kCuda, "matmuls_bf16", Claim::kPresent},
    {"fp16", Device::kCuda, "matmuls_fp16", Claim::kPresent},
    {"fp16", Device::kCuda, "aten::_amp_foreach_non_finite_check_and_unscale_", Claim::kPresent},
};
constexpr EvidenceRule kCheckpointEvidence[] = {
    {"full", Device::kCpu, "block_forwards", Claim::kMoreThanReference},
    {"full", Device::kCuda, "block_forwards", Claim::kMoreThanReference},
    {"full", Device::kCpu, "trace.recomputed_blocks", Claim::kPresent},
    {"full", Device::kCuda, "trace.recomputed_blocks", Claim::kPresent},
    {"full", Device::kCuda, "trace.kernels", Claim::kMoreThanReference},
};
constexpr EvidenceRule kDataEvidence[] = {
    {"sync", Device::kCpu, "loader_thread_batches", Claim::kAbsent},
    {"sync", Device::kCuda, "loader_thread_batches", Claim::kAbsent},
    {"prefetch", Device::kCpu, "loader_thread_batches", Claim::kPresent},
    {"prefetch", Device::kCuda, "loader_thread_batches", Claim::kPresent},
    {"prefetch", Device::kCuda, "pinned_copies", Claim::kAbsent},
    {"pinned", Device::kCuda, "loader_thread_batches", Claim::kPresent},
    {"pinned", Device::kCuda, "pinned_copies", Claim::kPresent},
    {"prefetch", Device::kCuda, "trace.host_copies_pageable", Claim::kPresent},
    {"sync", Device::kCuda, "trace.host_copies_pageable", Claim::kPresent},
    {"pinned", Device::kCuda, "trace.host_copies_pinned", Claim::kPresent},
    {"pinned", Device::kCuda, "trace.host_copies_pageable", Claim::kAbsent},
};
constexpr EvidenceRule kBatchingEvidence[] = {
    {"packed", Device::kCpu, "padding_positions", Claim::kAbsent},
    {"packed", Device::kCuda, "padding_positions", Claim::kAbsent},
    {"padded", Device::kCpu, "padding_positions", Claim::kPresent},
    {"padded", Device::kCuda, "padding_positions", Claim::kPresent},
    {"bucketed", Device::kCpu, "distinct_row_lengths", Claim::kMoreThanReference},
    {"bucketed", Device::kCuda, "distinct_row_lengths", Claim::kMoreThanReference},
};
constexpr EvidenceRule kNoSyncEvidence[] = {
    {"on", Device::kCpu, kAllReduce, Claim::kPresent},
    {"on", Device::kCpu, kAllReduce, Claim::kFewerThanReference},
    {"on", Device::kCpu, kAllReduceBytes, Claim::kFewerThanReference},
    {"off", Device::kCpu, kAllReduce, Claim::kMoreThanReference},
    {"on", Device::kCuda, kAllReduce, Claim::kPresent},
    {"on", Device::kCuda, kAllReduce, Claim::kFewerThanReference},
    {"on", Device::kCuda, kAllReduceBytes, Claim::kFewerThanReference},
    {"on", Device::kCuda, kAllReduceKernels, Claim::kFewerThanReference},
    {"off", Device::kCuda, kAllReduce, Claim::kMoreThanReference},
};
constexpr EvidenceRule kBucketMbEvidence[] = {
    {"1", Device::kCpu, kAllReduce, Claim::kMoreThanReference},
    {"5", Device::kCpu, kAllReduce, Claim::kOtherThanReference},
    {"25", Device::kCpu, kAllReduce, Claim::kOtherThanReference},
    {"100", Device::kCpu, kAllReduce, Claim::kFewerThanReference},
    {"1", Device::kCuda, kAllReduce, Claim::kMoreThanReference},
    {"5", Device::kCuda, kAllReduce, Claim::kOtherThanReference},
    {"25", Device::kCuda, kAllReduce, Claim::kOtherThanReference},
    {"100", Device::kCuda, kAllReduce, Claim::kFewerThanReference},
};
constexpr EvidenceRule kCommDtypeEvidence[] = {
    {"fp32", Device::kCpu, "all_reduces_fp32", Claim::kPresent},
    {"bf16", Device::kCpu, "all_reduces_bf16", Claim::kPresent},
    {"bf16", Device::kCpu, "all_reduces_fp32", Claim::kAbsent},
    {"bf16", Device::kCpu, kAllReduceBytes, Claim::kFewerThanReference},
    {"fp16", Device::kCpu, "all_reduces_fp16", Claim::kPresent},
    {"fp16", Device::kCpu, "all_reduces_fp32", Claim::kAbsent},
    {"fp16", Device::kCpu, kAllReduceBytes, Claim::kFewerThanReference},
    {"fp32", Device::kCuda, "all_reduces_fp32", Claim::kPresent},
    {"bf16", Device::kCuda, "all_reduces_bf16", Claim::kPresent},
    {"bf16", Device::kCuda, "all_reduces_fp32", Claim::kAbsent},
    {"bf16", Device::kCuda, kAllReduceBytes, Claim::kFewerThanReference},
    {"fp16", Device::kCuda, "all_reduces_fp16", Claim::kPresent},
    {"fp16", Device::kCuda, "all_reduces_fp32", Claim::kAbsent},
    {"fp16", Device::kCuda, kAllReduceBytes, Claim::kFewerThanReference},
};
constexpr EvidenceRule kOverlapEvidence[] = {
    {"off", Device::kCpu, "all_reduces_after_backward", Claim::kPresent},
    {"on", Device::kCpu, "all_reduces_after_backward", Claim::kAbsent},
    {"off", Device::kCuda, "all_reduces_after_backward", Claim::kPresent},
    {"off", Device::kCuda, "trace.overlapped_communication", Claim::kFewerThanReference},
    {"on", Device::kCuda, "all_reduces_after_backward", Claim::kAbsent},
};
constexpr EvidenceRule kReducerEvidence[] = {
    {"always", Device::kCpu, kAllReduce, Claim::kPresent},
    {"several_ranks", Device::kCpu, kAllReduce, Claim::kAbsent},
    {"always", Device::kCuda, kAllReduce, Claim::kPresent},
    {"several_ranks", Device::kCuda, kAllReduce, Claim::kAbsent},
};
constexpr EvidenceRule kSyncEvidence[] = {
    {"on", Device::kCpu, "loss_reads", Claim::kPresent},
    {"on", Device::kCuda, "loss_reads", Claim::kPresent},
    {"on", Device::kCuda, "trace.synchronize_calls", Claim::kMoreThanReference},
    {"off", Device::kCpu, "loss_reads", Claim::kAbsent},
    {"off", Device::kCuda, "loss_reads", Claim::kAbsent},
};
constexpr EvidenceRule kFrozenEvidence[] = {
    {"embeddings", Device::kCpu, kEmbeddingBackward, Claim::kAbsent},
    {"embeddings", Device::kCpu, "frozen_parameters", Claim::kPresent},
    {"embeddings", Device::kCuda, kEmbeddingBackward, Claim::kAbsent},
    {"embeddings", Device::kCuda, "frozen_parameters", Claim::kPresent},
};
constexpr EvidenceRule kAllocatorEvidence[] = {
    {"expandable_segments", Device::kCuda, "expandable_segments", Claim::kPresent},
    {"default", Device::kCuda, "expandable_segments", Claim::kAbsent},
};
constexpr EvidenceRule kInstrumentationEvidence[] = {
    {"minimal", Device::kCpu, "nvtx_ranges", Claim::kAbsent},
    {"minimal", Device::kCuda, "nvtx_ranges", Claim::kAbsent},
};
constexpr EvidenceRule kTracingEvidence[] = {
    {"null", Device::kCuda, "traced_kernels", Claim::kAbsent},
    {"null", Device::kCuda, "trace_slabs", Claim::kPresent},
    {"full", Device::kCuda, "traced_kernels", Claim::kPresent},
};
constexpr EvidenceRule kInjectedSpinEvidence[] = {
    {"500us", Device::kCpu, "injected_spins", Claim::kPresent},
    {"1ms", Device::kCpu, "injected_spins", Claim::kPresent},
    {"5ms", Device::kCpu, "injected_spins", Claim::kPresent},
    {"500us", Device::kCuda, "injected_spins", Claim::kPresent},
    {"1ms", Device::kCuda, "injected_spins", Claim::kPresent},
    {"5ms", Device::kCuda, "injected_spins", Claim::kPresent},
};

// ---- the table of contents of what this project can compare ----

constexpr Toggle kToggles[] = {
    {.name = "attention",
     .summary = "which scaled_dot_product_attention kernel runs",
     .key = "attention",
     .levels = kAttention,
     .evidence = kAttentionEvidence,
     .is_in_default_matrix = true},
    {.name = "accumulation",
     .summary = "micro-steps per optimizer step; holds what accumulation_holds says",
     .key = "accumulation",
     .levels = kAccumulation,
     .evidence = kAccumulationEvidence,
     .contract_for =
         [](const RunConfig& config) {
           return config.accumulation_holds == AccumulationHolds::kMicroBatch
                      ? Contract::kSameTokens
                      : Contract::kSameMaths;
         },
     .is_in_default_matrix = true},
    {.name = "graph",
     .summary = "the whole step captured once and replayed as one CUDA graph",
     .key = "graph",
     .levels = kGraph,
     .evidence = kGraphEvidence,
     .is_in_default_matrix = true},
    {.name = "compile",
     .summary = "forward and backward as one function that Inductor compiled ahead of time",
     .key = "compile",
     .levels = kCompile,
     .evidence = kCompileEvidence},
    {.name = "optimizer",
     .summary = "AdamW as one launch a tensor and op, lists of tensors, or one fused update; "
                "multi_tensor clips in it too",
     .key = "optimizer",
     .levels = kOptimizer,
     .evidence = kOptimizerEvidence,
     .is_in_default_matrix = true},
    {.name = "precision",
     .summary = "arithmetic of the matrix products",
     .key = "precision",
     .levels = kPrecision,
     .evidence = kPrecisionEvidence},
    {.name = "weights",
     .summary = "fp32 weights cast at each use, or bf16 matrices with fp32 masters",
     .key = "weights",
     .levels = kWeights,
     .evidence = kWeightsEvidence},
    {.name = "norm",
     .summary = "RMSNorm with the residual add before it: ATen's operators or one kernel",
     .key = "norm",
     .levels = kNorm,
     .evidence = kNormEvidence},
    {.name = "rope",
     .summary = "rotary embedding and the split of q, k and v: ATen's operators or one kernel",
     .key = "rope",
     .levels = kRope,
     .evidence = kRopeEvidence},
    {.name = "mlp",
     .summary = "SwiGLU between the MLP's products: ATen's operators or one kernel",
     .key = "mlp",
     .levels = kMlp,
     .evidence = kMlpEvidence},
    {.name = "loss",
     .summary = "LM head and cross-entropy: ATen's operators, or in chunks with the gradient in "
                "the forward pass",
     .key = "loss",
     .levels = kLoss,
     .evidence = kLossEvidence},
    {.name = "embedding",
     .summary = "backward pass of the embedding: ATen's operator or one kernel",
     .key = "embedding",
     .levels = kEmbedding,
     .evidence = kEmbeddingEvidence},
    {.name = "checkpoint",
     .summary = "recompute each block's activations in the backward pass",
     .key = "checkpoint",
     .levels = kCheckpoint,
     .evidence = kCheckpointEvidence,
     .is_in_default_matrix = true},
    {.name = "data",
     .summary = "batches made in the step, by a prefetch thread, or that and pinned memory",
     .key = "data",
     .levels = kData,
     .evidence = kDataEvidence},
    {.name = "batching",
     .summary = "rows packed from the stream, padded documents, or documents bucketed by length",
     .key = "batching",
     .levels = kBatching,
     .evidence = kBatchingEvidence,
     .contract = Contract::kSameTokens},
    {.name = "no_sync",
     .summary = "ranks reduce gradients once a step instead of in every micro-step (DDP's no_sync)",
     .key = "no_sync",
     .levels = kNoSync,
     .evidence = kNoSyncEvidence},
    {.name = "bucket_mb",
     .summary = "MiB of gradients that the ranks send in one all-reduce, at most",
     .key = "bucket_mb",
     .levels = kBucketMb,
     .evidence = kBucketMbEvidence},
    {.name = "comm_dtype",
     .summary = "type in which gradients travel between ranks; they are added up in it too",
     .key = "comm_dtype",
     .levels = kCommDtype,
     .evidence = kCommDtypeEvidence},
    {.name = "overlap",
     .summary = "gradients travel while the backward pass goes on, or behind it",
     .key = "overlap",
     .levels = kOverlap,
     .evidence = kOverlapEvidence},
    {.name = "reducer",
     .summary = "what DDP's buckets and hooks cost one rank, which sends nothing",
     .key = "reducer",
     .levels = kReducer,
     .evidence = kReducerEvidence},
    {.name = "sync_every_micro_step",
     .summary = "wait for the device and read the loss after every micro-step",
     .key = "sync_every_micro_step",
     .levels = kSyncEveryMicroStep,
     .evidence = kSyncEvidence},
    {.name = "frozen",
     .summary = "parameters that do not train",
     .key = "frozen",
     .levels = kFrozen,
     .evidence = kFrozenEvidence,
     .contract = Contract::kDifferentMaths},
    {.name = "allocator",
     .summary = "expandable segments in the caching allocator",
     .key = "allocator",
     .levels = kAllocator,
     .evidence = kAllocatorEvidence},
    {.name = "instrumentation",
     .summary = "what Steplens itself costs: events, NVTX ranges and sampler, or nothing of them",
     .key = "instrumentation",
     .levels = kInstrumentation,
     .evidence = kInstrumentationEvidence},
    {.name = "tracing",
     .summary = "what a trace costs: none, CUPTI with its records thrown away, or all of it",
     .key = "tracing",
     .levels = kTracing,
     .evidence = kTracingEvidence},
    {.name = "injected_spin",
     .summary = "a known slowdown, to check that the matrix finds it",
     .key = "injected_spin_ns",
     .levels = kInjectedSpin,
     .evidence = kInjectedSpinEvidence},
};

constexpr ExternalArm kExternalArms[] = {
    {.name = "torch-eager",
     .summary = "PyTorch eager in Python: same data, weights, clip and schedule",
     .script = "torch_step.py"},
    {.name = "torch-profiler",
     .summary = "the same under torch.profiler: what that costs",
     .script = "torch_profiler_step.py"},
    {.name = "torch-compile",
     .summary = "the same with forward and backward under torch.compile",
     .script = "torch_compile_step.py"},
    {.name = "torch-compile-reduce-overhead",
     .summary = "torch.compile that replays forward and backward as CUDA graphs",
     .script = "torch_compile_step.py"},
    {.name = "torch-compile-max-autotune",
     .summary = "torch.compile that also tries kernels for each product and keeps the fastest",
     .script = "torch_compile_step.py"},
    {.name = "hf-trainer",
     .summary = "the loop of Hugging Face's Trainer around its Llama, from the same weights",
     .script = "hf_trainer_step.py"},
};

}  // namespace

std::span<const Toggle> all_toggles() { return kToggles; }

std::span<const ExternalArm> all_external_arms() { return kExternalArms; }

std::string_view why_not(const RunConfig& config) {
  for (const Toggle& toggle : kToggles) {
    const Level* level = find_level(toggle, current_level(toggle, config));
    if (level != nullptr && level->why_not != nullptr) {
      const std::string_view reason = level->why_not(config);
      if (!reason.empty()) return reason;
    }
  }
  if (config.compile == Compile::kAoti) {
    if (uses_reducer(config)) {
      return "compile=aoti runs on one rank and past the Reducer: its gradients come all at once, "
             "after the backward pass";
    }
    if (config.batching != Batching::kPacked) {
      return "compile=aoti has one package a shape; batching=padded and bucketed vary it";
    }
    if (config.norm != Operators::kAten || config.rope != Operators::kAten ||
        config.mlp != Operators::kAten || config.loss != Operators::kAten ||
        config.embedding != Operators::kAten) {
      return "compile=aoti makes kernels of its own from ATen's operators; take norm, rope, mlp, "
             "loss and embedding=aten";
    }
    if (config.weights != Weights::kFp32) {
      return "compile=aoti takes fp32 weights; its package knows no masters";
    }
    if (config.checkpoint != Checkpoint::kOff) {
      return "compile=aoti holds forward and backward in one graph, which drops what "
             "checkpoint=full recomputes";
    }
  }
  if (config.graph) {
    if (config.optimizer == Optimizer::kLoop) {
      return "graph=on bakes the loop optimizer's bias correction into the graph; take "
             "optimizer=foreach, fused or multi_tensor";
    }
    if (config.precision == Precision::kFp16 && config.optimizer == Optimizer::kForeach) {
      return "graph=on cannot read the overflow flag of fp16 on the host; take optimizer=fused "
             "or multi_tensor";
    }
    if (config.sync_every_micro_step) {
      return "graph=on cannot wait for the device inside the captured step";
    }
    if (config.batching != Batching::kPacked) {
      return "graph=on needs one shape for every step; batching=padded and bucketed vary it";
    }
  }
  return "";
}

}  // namespace steplens
