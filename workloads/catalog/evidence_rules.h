#pragma once

#include <string_view>

#include "harness/toggle.h"

/// Proof of effect: per optimizer step, operator counts of the pilot (workloads/evidence.h)
/// and, with the prefix "trace.", what the arm's trace shows (reports/trace_evidence.h).
namespace steplens::rules {

inline constexpr Sight kOutside = Sight::kOutsidePackages;
inline constexpr Sight kInside = Sight::kInPackages;

inline constexpr std::string_view kFlashCpu = "aten::_scaled_dot_product_flash_attention_for_cpu";
inline constexpr std::string_view kFlash = "aten::_scaled_dot_product_flash_attention";
inline constexpr std::string_view kMemEfficient = "aten::_scaled_dot_product_efficient_attention";
inline constexpr std::string_view kCudnn = "aten::_scaled_dot_product_cudnn_attention";
inline constexpr std::string_view kMath = "aten::_scaled_dot_product_attention_math";
inline constexpr std::string_view kFlashForward = "aten::_flash_attention_forward";
inline constexpr std::string_view kMemEfficientForward = "aten::_efficient_attention_forward";
inline constexpr std::string_view kCudnnForward = "aten::_cudnn_attention_forward";
inline constexpr std::string_view kFused = "aten::_fused_adamw_";
inline constexpr std::string_view kLerp = "aten::lerp_";
inline constexpr std::string_view kForeachLerp = "aten::_foreach_lerp_";
inline constexpr std::string_view kAllReduce = "c10d::allreduce_";
inline constexpr std::string_view kRmsNorm = "aten::rms_norm";
inline constexpr std::string_view kSilu = "aten::silu";
inline constexpr std::string_view kCrossEntropy = "aten::cross_entropy_loss";
inline constexpr std::string_view kEmbeddingBackward = "aten::embedding_dense_backward";
inline constexpr std::string_view kAllReduceBytes = "all_reduce_bytes";
inline constexpr std::string_view kAllReduceKernels = "trace.kernels_communication";

inline constexpr EvidenceRule kAttentionEvidence[] = {
    {"math", Device::kCpu, kMath, Claim::kPresent, kOutside},
    {"math", Device::kCpu, kFlashCpu, Claim::kAbsent, kOutside},
    {"flash", Device::kCpu, kFlashCpu, Claim::kPresent, kOutside},
    {"flash", Device::kCpu, kMath, Claim::kAbsent, kOutside},
    {"math", Device::kCuda, kMath, Claim::kPresent, kOutside},
    {"math", Device::kCuda, kFlash, Claim::kAbsent, kOutside},
    {"math", Device::kCuda, kCudnn, Claim::kAbsent, kOutside},
    {"math", Device::kCuda, kMemEfficient, Claim::kAbsent, kOutside},
    {"mem_efficient", Device::kCuda, kMemEfficient, Claim::kPresent, kOutside},
    {"mem_efficient", Device::kCuda, kFlash, Claim::kAbsent, kOutside},
    {"mem_efficient", Device::kCuda, kCudnn, Claim::kAbsent, kOutside},
    {"flash", Device::kCuda, kFlash, Claim::kPresent, kOutside},
    {"flash", Device::kCuda, kCudnn, Claim::kAbsent, kOutside},
    {"flash", Device::kCuda, kMath, Claim::kAbsent, kOutside},
    {"cudnn", Device::kCuda, kCudnn, Claim::kPresent, kOutside},
    {"cudnn", Device::kCuda, kFlash, Claim::kAbsent, kOutside},
    {"cudnn", Device::kCuda, kMath, Claim::kAbsent, kOutside},
    {"math", Device::kCuda, "trace.attention_softmax", Claim::kPresent, kOutside},
    {"math", Device::kCuda, "trace.attention_flash", Claim::kAbsent},
    {"math", Device::kCuda, "trace.attention_cudnn", Claim::kAbsent},
    {"math", Device::kCuda, "trace.attention_mem_efficient", Claim::kAbsent},
    {"mem_efficient", Device::kCuda, "trace.attention_mem_efficient", Claim::kPresent},
    {"mem_efficient", Device::kCuda, "trace.attention_flash", Claim::kAbsent},
    {"mem_efficient", Device::kCuda, "trace.attention_softmax", Claim::kAbsent, kOutside},
    {"flash", Device::kCuda, "trace.attention_flash", Claim::kPresent},
    {"flash", Device::kCuda, "trace.attention_cudnn", Claim::kAbsent},
    {"flash", Device::kCuda, "trace.attention_softmax", Claim::kAbsent, kOutside},
    {"cudnn", Device::kCuda, "trace.attention_cudnn", Claim::kPresent},
    {"cudnn", Device::kCuda, "trace.attention_flash", Claim::kAbsent},
    {"cudnn", Device::kCuda, "trace.attention_softmax", Claim::kAbsent, kOutside},
    {"math", Device::kCpu, "package_attention_math", Claim::kPresent, kInside},
    {"flash", Device::kCpu, "package_attention_flash", Claim::kPresent, kInside},
    {"math", Device::kCuda, "package_attention_math", Claim::kPresent, kInside},
    {"math", Device::kCuda, kFlashForward, Claim::kAbsent, kInside},
    {"math", Device::kCuda, kCudnnForward, Claim::kAbsent, kInside},
    {"math", Device::kCuda, kMemEfficientForward, Claim::kAbsent, kInside},
    {"mem_efficient", Device::kCuda, kMemEfficientForward, Claim::kPresent, kInside},
    {"flash", Device::kCuda, kFlashForward, Claim::kPresent, kInside},
    {"cudnn", Device::kCuda, kCudnnForward, Claim::kPresent, kInside},
};
inline constexpr EvidenceRule kAccumulationEvidence[] = {
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
inline constexpr EvidenceRule kGraphEvidence[] = {
    {"on", Device::kCuda, "graph_replays", Claim::kPresent},
    {"on", Device::kCuda, "operators", Claim::kFewerThanReference},
    {"on", Device::kCuda, "trace.graph_launches", Claim::kPresent},
    {"on", Device::kCuda, "trace.launch_calls", Claim::kFewerThanReference},
};
inline constexpr EvidenceRule kCompileEvidence[] = {
    {"aoti", Device::kCpu, "package_runs", Claim::kPresent},
    {"aoti", Device::kCpu, "operators", Claim::kFewerThanReference},
    {"aoti", Device::kCuda, "package_runs", Claim::kPresent},
    {"aoti", Device::kCuda, kSilu, Claim::kAbsent},
    {"aoti", Device::kCuda, "trace.triton_kernels", Claim::kPresent},
    {"off", Device::kCpu, "package_runs", Claim::kAbsent},
    {"off", Device::kCuda, "package_runs", Claim::kAbsent},
    {"off", Device::kCuda, "trace.triton_kernels", Claim::kAbsent},
};
inline constexpr EvidenceRule kOptimizerEvidence[] = {
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
inline constexpr EvidenceRule kWeightsEvidence[] = {
    {"bf16_master", Device::kCuda, "bf16_parameters", Claim::kPresent},
    {"bf16_master", Device::kCuda, "aten::_to_copy", Claim::kFewerThanReference, kOutside},
    {"bf16_master", Device::kCuda, "trace.kernels_copy", Claim::kFewerThanReference, kOutside},
    {"fp32", Device::kCuda, "bf16_parameters", Claim::kAbsent},
};
inline constexpr EvidenceRule kNormEvidence[] = {
    {"fused", Device::kCuda, "fused_norms", Claim::kPresent},
    {"fused", Device::kCuda, kRmsNorm, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.norm_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.norm_aten", Claim::kAbsent},
    {"aten", Device::kCuda, "fused_norms", Claim::kAbsent},
    {"aten", Device::kCuda, kRmsNorm, Claim::kPresent},
    {"aten", Device::kCuda, "trace.norm_fused", Claim::kAbsent},
};
inline constexpr EvidenceRule kRopeEvidence[] = {
    {"fused", Device::kCuda, "fused_ropes", Claim::kPresent},
    {"fused", Device::kCuda, "aten::cat", Claim::kFewerThanReference, kOutside},
    {"fused", Device::kCuda, "trace.rope_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.kernels", Claim::kFewerThanReference, kOutside},
    {"aten", Device::kCuda, "fused_ropes", Claim::kAbsent},
    {"aten", Device::kCuda, "trace.rope_fused", Claim::kAbsent},
};
inline constexpr EvidenceRule kMlpEvidence[] = {
    {"fused", Device::kCuda, "fused_mlps", Claim::kPresent},
    {"fused", Device::kCuda, kSilu, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.mlp_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.silu_aten", Claim::kAbsent},
    {"aten", Device::kCuda, "fused_mlps", Claim::kAbsent},
    {"aten", Device::kCuda, kSilu, Claim::kPresent},
    {"aten", Device::kCuda, "trace.mlp_fused", Claim::kAbsent},
};
inline constexpr EvidenceRule kLossEvidence[] = {
    {"fused", Device::kCuda, "fused_losses", Claim::kPresent},
    {"fused", Device::kCuda, kCrossEntropy, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.loss_fused", Claim::kPresent},
    {"fused", Device::kCuda, "trace.loss_aten", Claim::kAbsent},
    {"aten", Device::kCuda, "fused_losses", Claim::kAbsent},
    {"aten", Device::kCuda, kCrossEntropy, Claim::kPresent},
    {"aten", Device::kCuda, "trace.loss_fused", Claim::kAbsent},
};
inline constexpr EvidenceRule kLossRowsEvidence[] = {
    {"2048", Device::kCuda, "fused_losses", Claim::kOtherThanReference},
    {"4096", Device::kCuda, "fused_losses", Claim::kOtherThanReference},
    {"8192", Device::kCuda, "fused_losses", Claim::kOtherThanReference},
    {"16384", Device::kCuda, "fused_losses", Claim::kOtherThanReference},
    {"32768", Device::kCuda, "fused_losses", Claim::kOtherThanReference},
    {"all", Device::kCuda, "fused_losses", Claim::kOtherThanReference},
};
inline constexpr EvidenceRule kEmbeddingEvidence[] = {
    {"fused", Device::kCuda, "fused_embedding_gradients", Claim::kPresent},
    {"fused", Device::kCuda, kEmbeddingBackward, Claim::kAbsent},
    {"fused", Device::kCuda, "trace.embedding_fused", Claim::kPresent},
    {"aten", Device::kCuda, "fused_embedding_gradients", Claim::kAbsent},
    {"aten", Device::kCuda, kEmbeddingBackward, Claim::kPresent},
    {"aten", Device::kCuda, "trace.embedding_fused", Claim::kAbsent},
};
inline constexpr EvidenceRule kResidualEvidence[] = {
    {"fused", Device::kCuda, "fused_residuals", Claim::kPresent},
    {"aten", Device::kCuda, "fused_residuals", Claim::kAbsent},
};
inline constexpr EvidenceRule kGemmEvidence[] = {
    {"tuned", Device::kCuda, "tuned_gemms", Claim::kPresent},
    {"tuned", Device::kCuda, "aten::mm", Claim::kFewerThanReference, kOutside},
    {"heuristic", Device::kCuda, "tuned_gemms", Claim::kAbsent},
};
inline constexpr EvidenceRule kPrecisionEvidence[] = {
    {"fp32", Device::kCuda, "matmuls_fp32", Claim::kPresent, kOutside},
    {"fp32", Device::kCuda, "matmuls_bf16", Claim::kAbsent, kOutside},
    {"tf32", Device::kCuda, "matmuls_tf32", Claim::kPresent, kOutside},
    {"tf32", Device::kCuda, "matmuls_bf16", Claim::kAbsent, kOutside},
    {"bf16", Device::kCuda, "matmuls_bf16", Claim::kPresent, kOutside},
    {"fp16", Device::kCuda, "matmuls_fp16", Claim::kPresent, kOutside},
    {"fp16", Device::kCuda, "aten::_amp_foreach_non_finite_check_and_unscale_", Claim::kPresent},
    {"fp32", Device::kCuda, "package_precision_fp32", Claim::kPresent, kInside},
    {"tf32", Device::kCuda, "package_precision_tf32", Claim::kPresent, kInside},
    {"bf16", Device::kCuda, "package_precision_bf16", Claim::kPresent, kInside},
    {"fp16", Device::kCuda, "package_precision_fp16", Claim::kPresent, kInside},
};
inline constexpr EvidenceRule kCheckpointEvidence[] = {
    {"full", Device::kCpu, "block_forwards", Claim::kMoreThanReference},
    {"full", Device::kCuda, "block_forwards", Claim::kMoreThanReference},
    {"full", Device::kCpu, "trace.recomputed_blocks", Claim::kPresent},
    {"full", Device::kCuda, "trace.recomputed_blocks", Claim::kPresent},
    {"full", Device::kCuda, "trace.kernels", Claim::kMoreThanReference},
};
inline constexpr EvidenceRule kDataEvidence[] = {
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
inline constexpr EvidenceRule kBatchingEvidence[] = {
    {"packed", Device::kCpu, "padding_positions", Claim::kAbsent},
    {"packed", Device::kCuda, "padding_positions", Claim::kAbsent},
    {"padded", Device::kCpu, "padding_positions", Claim::kPresent},
    {"padded", Device::kCuda, "padding_positions", Claim::kPresent},
    {"bucketed", Device::kCpu, "distinct_row_lengths", Claim::kMoreThanReference},
    {"bucketed", Device::kCuda, "distinct_row_lengths", Claim::kMoreThanReference},
};
inline constexpr EvidenceRule kNoSyncEvidence[] = {
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
inline constexpr EvidenceRule kBucketMbEvidence[] = {
    {"1", Device::kCpu, kAllReduce, Claim::kMoreThanReference},
    {"5", Device::kCpu, kAllReduce, Claim::kOtherThanReference},
    {"25", Device::kCpu, kAllReduce, Claim::kOtherThanReference},
    {"100", Device::kCpu, kAllReduce, Claim::kFewerThanReference},
    {"1", Device::kCuda, kAllReduce, Claim::kMoreThanReference},
    {"5", Device::kCuda, kAllReduce, Claim::kOtherThanReference},
    {"25", Device::kCuda, kAllReduce, Claim::kOtherThanReference},
    {"100", Device::kCuda, kAllReduce, Claim::kFewerThanReference},
};
inline constexpr EvidenceRule kCommDtypeEvidence[] = {
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
inline constexpr EvidenceRule kOverlapEvidence[] = {
    {"off", Device::kCpu, "all_reduces_after_backward", Claim::kPresent},
    {"on", Device::kCpu, "all_reduces_after_backward", Claim::kAbsent},
    {"off", Device::kCuda, "all_reduces_after_backward", Claim::kPresent},
    {"off", Device::kCuda, "trace.overlapped_communication", Claim::kFewerThanReference},
    {"on", Device::kCuda, "all_reduces_after_backward", Claim::kAbsent},
};
inline constexpr EvidenceRule kReducerEvidence[] = {
    {"always", Device::kCpu, kAllReduce, Claim::kPresent},
    {"several_ranks", Device::kCpu, kAllReduce, Claim::kAbsent},
    {"always", Device::kCuda, kAllReduce, Claim::kPresent},
    {"several_ranks", Device::kCuda, kAllReduce, Claim::kAbsent},
};
inline constexpr EvidenceRule kSyncEvidence[] = {
    {"on", Device::kCpu, "loss_reads", Claim::kPresent},
    {"on", Device::kCuda, "loss_reads", Claim::kPresent},
    {"on", Device::kCuda, "trace.synchronize_calls", Claim::kMoreThanReference},
    {"off", Device::kCpu, "loss_reads", Claim::kAbsent},
    {"off", Device::kCuda, "loss_reads", Claim::kAbsent},
};
inline constexpr EvidenceRule kFrozenEvidence[] = {
    {"embeddings", Device::kCpu, kEmbeddingBackward, Claim::kAbsent, kOutside},
    {"embeddings", Device::kCpu, "frozen_parameters", Claim::kPresent},
    {"embeddings", Device::kCuda, kEmbeddingBackward, Claim::kAbsent, kOutside},
    {"embeddings", Device::kCuda, "frozen_parameters", Claim::kPresent},
};
inline constexpr EvidenceRule kAllocatorEvidence[] = {
    {"expandable_segments", Device::kCuda, "expandable_segments", Claim::kPresent},
    {"default", Device::kCuda, "expandable_segments", Claim::kAbsent},
};
inline constexpr EvidenceRule kInstrumentationEvidence[] = {
    {"minimal", Device::kCpu, "nvtx_ranges", Claim::kAbsent},
    {"minimal", Device::kCuda, "nvtx_ranges", Claim::kAbsent},
};
inline constexpr EvidenceRule kTracingEvidence[] = {
    {"null", Device::kCuda, "traced_kernels", Claim::kAbsent},
    {"null", Device::kCuda, "trace_slabs", Claim::kPresent},
    {"full", Device::kCuda, "traced_kernels", Claim::kPresent},
};
inline constexpr EvidenceRule kInjectedSpinEvidence[] = {
    {"500us", Device::kCpu, "injected_spins", Claim::kPresent},
    {"1ms", Device::kCpu, "injected_spins", Claim::kPresent},
    {"5ms", Device::kCpu, "injected_spins", Claim::kPresent},
    {"500us", Device::kCuda, "injected_spins", Claim::kPresent},
    {"1ms", Device::kCuda, "injected_spins", Claim::kPresent},
    {"5ms", Device::kCuda, "injected_spins", Claim::kPresent},
};

}  // namespace steplens::rules
