#include "reports/trace_evidence.h"

#include <gtest/gtest.h>

namespace steplens {
namespace {

// Two steps by hand. Ranges: 0 step, 1 forward, 2 attention below it, 3 backward, 4 "block 0" below
// that, 5 optimizer, 6 data.
class TraceEvidence : public ::testing::Test {
 protected:
  TraceEvidence() {
    trace_.ranges = {{.name = id("step")},
                     {.name = id("forward"), .parent = 0},
                     {.name = id("attention"), .parent = 1},
                     {.name = id("backward"), .parent = 0},
                     {.name = id("block 0"), .parent = 3},
                     {.name = id("optimizer"), .parent = 0},
                     {.name = id("data")}};
    trace_.steps = {{.start_ns = 0, .end_ns = 100}, {.start_ns = 100, .end_ns = 200}};
    trace_.threads = {{.tid = 1}, {.tid = 2}};
  }

  StringId id(const std::string& text) {
    trace_.strings.push_back(text);
    return static_cast<StringId>(trace_.strings.size() - 1);
  }
  GpuOp& add(const std::string& name, std::uint32_t range = 1, std::int32_t step = 0) {
    trace_.gpu_ops.push_back(
        {.start_ns = 1, .end_ns = 2, .name = id(name), .range = range, .step_index = step});
    return trace_.gpu_ops.back();
  }
  void open(std::uint32_t range, std::uint32_t thread = 0, std::uint32_t parent = kNoRow) {
    trace_.range_instances.push_back(
        {.start_ns = 0, .end_ns = 1, .range = range, .thread = thread, .parent = parent});
  }
  double count(const std::string& name) {
    const std::map<std::string, double> counters = trace_counters(trace_);
    const auto it = counters.find(name);
    return it == counters.end() ? 0 : it->second;
  }

  Trace trace_;
};

TEST_F(TraceEvidence, TellsTheFamiliesOfAttentionApart) {
  add("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(...)", 2);
  add("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>(...)", 3);
  add("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x128x64", 2);
  add("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<...>)", 2);
  EXPECT_DOUBLE_EQ(count("attention_flash"), 1.0);  // Two, over two steps.
  EXPECT_DOUBLE_EQ(count("attention_cudnn"), 0.5);
  EXPECT_DOUBLE_EQ(count("attention_mem_efficient"), 0.5);
  EXPECT_DOUBLE_EQ(count("attention_forward"), 1.5);
  EXPECT_DOUBLE_EQ(count("attention_softmax"), 0);
}

TEST_F(TraceEvidence, CountsAllReducesUnderComputation) {
  const auto place = [](GpuOp& op, std::int64_t start_ns, std::int64_t end_ns) {
    op.start_ns = start_ns;
    op.end_ns = end_ns;
  };
  place(add("gemm", 3), 10, 50);
  for (const auto& [start_ns, end_ns] : {std::pair(20, 40), std::pair(40, 90)}) {
    GpuOp& op = add("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 3);
    place(op, start_ns, end_ns);
    op.stream_id = 20;
  }
  EXPECT_DOUBLE_EQ(count("overlapped_communication"), 0.5);  // The first, over two steps.
}

TEST_F(TraceEvidence, CountsSoftmaxOnlyInAttention) {
  add("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>", 2);
  add("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float>", 1);
  EXPECT_DOUBLE_EQ(count("attention_softmax"), 0.5);
  EXPECT_DOUBLE_EQ(count("kernels"), 1.0);
}

TEST_F(TraceEvidence, TellsOurKernelsFromOthersOfTheSamePart) {
  for (const char* name :
       {"void steplens::(anonymous namespace)::rms_norm_forward_kernel<float>(...)",
        "_ZN8steplens51_GLOBAL__N__rms_norm_backward_kernelIfEEvPKf",
        "void steplens::(anonymous namespace)::rope_qkv_kernel<float>(...)",
        "void steplens::(anonymous namespace)::swiglu_backward_kernel<float>(...)",
        "void steplens::(anonymous namespace)::cross_entropy_two_pass_kernel<float>(...)",
        "steplens::(anonymous namespace)::embedding_sum_kernel(...)",
        "steplens::(anonymous namespace)::adamw_update_kernel(...)",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, true>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(...)>",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, "
        "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>",
        "void at::native::(anonymous namespace)::compute_grad_weight<float, long>"}) {
    add(name);
  }
  EXPECT_DOUBLE_EQ(count("norm_fused"), 1.0);  // Two, over two steps.
  EXPECT_DOUBLE_EQ(count("rope_fused"), 0.5);
  EXPECT_DOUBLE_EQ(count("mlp_fused"), 0.5);
  EXPECT_DOUBLE_EQ(count("loss_fused"), 0.5);
  EXPECT_DOUBLE_EQ(count("embedding_fused"), 0.5);
  EXPECT_DOUBLE_EQ(count("adamw_fused"), 0.5);
  EXPECT_DOUBLE_EQ(count("norm_aten"), 0.5);
  EXPECT_DOUBLE_EQ(count("silu_aten"), 0.5);
  EXPECT_DOUBLE_EQ(count("loss_aten"), 0.5);
  EXPECT_DOUBLE_EQ(count("embedding_aten"), 0.5);
}

TEST_F(TraceEvidence, CountsCopiesByTheMemoryOfTheHost) {
  GpuOp& pinned = add("memcpy h2d");
  pinned.kind = GpuOpKind::kCopy;
  pinned.copy_kind = CopyKind::kHostToDevice;
  pinned.source_memory = MemoryKind::kPinned;
  pinned.target_memory = MemoryKind::kDevice;
  GpuOp& pageable = add("memcpy d2h");
  pageable.kind = GpuOpKind::kCopy;
  pageable.copy_kind = CopyKind::kDeviceToHost;
  pageable.source_memory = MemoryKind::kDevice;
  pageable.target_memory = MemoryKind::kPageable;
  GpuOp& device = add("memcpy d2d");
  device.kind = GpuOpKind::kCopy;
  device.copy_kind = CopyKind::kDeviceToDevice;
  EXPECT_DOUBLE_EQ(count("copies"), 1.5);
  EXPECT_DOUBLE_EQ(count("host_copies_pinned"), 0.5);
  EXPECT_DOUBLE_EQ(count("host_copies_pageable"), 0.5);
  EXPECT_DOUBLE_EQ(count("kernels"), 0);
}

TEST_F(TraceEvidence, CountsCallsAndThePhaseOfTheOptimizer) {
  for (const char* name :
       {"cudaGraphLaunch", "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx",
        "cudaStreamSynchronize", "cudaMalloc", "cudaEventRecord"}) {
    trace_.apis.push_back({.start_ns = 1, .end_ns = 2, .name = id(name)});
  }
  add("multi_tensor_apply_kernel", 5).phase = Phase::kOptimizer;
  EXPECT_DOUBLE_EQ(count("graph_launches"), 0.5);
  EXPECT_DOUBLE_EQ(count("launch_calls"), 1.5);
  EXPECT_DOUBLE_EQ(count("synchronize_calls"), 0.5);
  EXPECT_DOUBLE_EQ(count("device_allocs"), 0.5);
  EXPECT_DOUBLE_EQ(count("optimizer_kernels"), 0.5);
}

TEST_F(TraceEvidence, CountsRangesRecomputationAndForeignThreads) {
  open(0);
  open(1, 0, 0);
  open(1, 0, 0);
  open(3, 1);
  open(4, 1, 3);  // A block's range while a node of the backward pass runs.
  open(6, 1);     // A loader's.
  EXPECT_DOUBLE_EQ(count("forward_ranges"), 1.0);
  EXPECT_DOUBLE_EQ(count("recomputed_blocks"), 0.5);
  EXPECT_DOUBLE_EQ(count("data_ranges_elsewhere"), 0.5);
}

TEST_F(TraceEvidence, LeavesOutWhatBelongsToNoStep) {
  add("gemm", 1, -1);
  EXPECT_DOUBLE_EQ(count("kernels"), 0);
}

}  // namespace
}  // namespace steplens
