#include "reports/breakdown/kernel_patterns.h"

#include <string_view>

#include <gtest/gtest.h>

#include "reports/breakdown/kernel_names.h"

namespace steplens {
namespace {

struct Named {
  std::string_view name;
  KernelCategory category;
};

using enum KernelCategory;

constexpr Named kNames[] = {
    // cuBLAS and CUTLASS
    {"nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN", kGemm},
    {"nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", kGemm},
    {"cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8", kGemm},
    {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align4>"
     "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align4::Params)",
     kGemm},
    {"ampere_sgemm_128x64_tn", kGemm},
    {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", kGemm},
    {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", kGemm},
    {"void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, false>", kGemm},
    {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", kGemm},
    // Attention
    {"void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*, void const*)",
     kAttention},
    {"void cudnn::fusion::convert_dq_to_16bits<true>(void const*, void*)", kAttention},
    {"compute_dot_do_o_specialized", kAttention},  // As a trace has them: without namespaces.
    {"convert_dq_to_16bits", kAttention},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1",
     kAttention},
    {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, "
     "false, false, cutlass::bfloat16_t>>(pytorch_flash::Flash_fwd_params)",
     kAttention},
    {"_ZN13pytorch_flash47flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelINS_23Flash_bwd_kernel_"
     "traitsILi64E",
     kAttention},
    {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<...>)",
     kAttention},
    {"fmha_cutlassB_bf16_aligned_64x64_k64_sm80", kAttention},
    {"void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, "
     "false, false>",
     kAttention},
    {"triton_tem_fused_flex_attention_0", kAttention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", kAttention},
    {"aten::_scaled_dot_product_efficient_attention_backward", kAttention},
    {"aten::_softmax", kAttention},
    // Loss
    {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, "
     "long>",
     kLoss},
    {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, "
     "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>",
     kLoss},
    {"triton_red_fused__log_softmax_nll_loss_forward_3", kLoss},
    {"aten::_log_softmax_backward_data", kLoss},
    {"aten::cross_entropy_loss", kLoss},
    // Norms
    {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, "
     "true>",
     kNorm},
    {"_ZN2at6native53_GLOBAL__N__22layer_norm_grad_input_kernel", kNorm},
    {"void at::native::(anonymous namespace)::GammaBetaBackwardSimpleCUDAKernel<float, float>",
     kNorm},
    {"triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_2", kNorm},
    {"aten::_fused_rms_norm", kNorm},
    {"aten::native_layer_norm_backward", kNorm},
    // Optimizers and what goes through the same launcher
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
     "namespace)::TensorListMetadata<4>, at::native::(anonymous namespace)::"
     "PointwiseOpScalarListFunctor<float, 4, 3, 0>>",
     kOptimizer},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
     "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::"
     "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>>",
     kOptimizer},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
     "namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<float>>",
     kReduction},
    {"void at::native::lpnorm_cleanup<float, (at::native::NormType)1, float, true, float>",
     kReduction},
    {"aten::_fused_adamw_", kOptimizer},
    {"aten::_foreach_addcdiv_", kOptimizer},
    {"aten::_foreach_norm", kReduction},
    {"aten::_amp_foreach_non_finite_check_and_unscale_", kOptimizer},
    // Embedding
    {"void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned "
     "int, 2, 2, -2>",
     kEmbedding},
    {"void at::native::vectorized_gather_kernel<16, long>", kEmbedding},
    {"void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, "
     "long>",
     kEmbedding},
    {"void at::native::(anonymous namespace)::compute_grad_weight<float, long>", kEmbedding},
    {"aten::embedding_dense_backward", kEmbedding},
    {"void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<...>",
     kEmbedding},
    {"void cub::CUB_300001_SM_900::detail::radix_sort::DeviceRadixSortHistogramKernel<...>",
     kEmbedding},
    {"void at_cuda_detail::cub::detail::unique_by_key::DeviceUniqueByKeySweepKernel<...>",
     kEmbedding},
    {"void at_cuda_detail::cub::detail::scan::DeviceCompactInitKernel<...>", kEmbedding},
    {"void at::native::(anonymous namespace)::compute_num_of_partial_segments<long>", kEmbedding},
    // Communication, before what its names also say
    {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", kCommunication},
    {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", kCommunication},
    {"ncclKernel_AllGather_RING_LL_Sum_int8_t", kCommunication},
    {"c10d::allreduce_", kCommunication},
    {"gloo:all_reduce", kCommunication},
    // Copies
    {"Memcpy HtoD (Pinned -> Device)", kCopy},
    {"Memset (Device)", kCopy},
    {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::"
     "TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}, 4>",
     kCopy},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at::"
     "TensorIteratorBase&)::{lambda(float)#1}, 2>",
     kCopy},
    {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2>>",
     kCopy},
    {"aten::copy_", kCopy},
    {"aten::_to_copy", kCopy},
    {"aten::index_copy_", kCopy},
    // Reductions
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::"
     "func_wrapper_t<float, at::native::sum_functor<float>>>>",
     kReduction},
    {"triton_red_fused_sum_4", kReduction},
    {"triton_per_fused_mul_sum_5", kReduction},
    {"aten::sum", kReduction},
    {"aten::linalg_vector_norm", kReduction},
    // Elementwise
    {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
     "std::array<char*, 3>>",
     kElementwise},
    {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIN3c108BFloat16EEE",
     kElementwise},
    {"triton_poi_fused__to_copy_mul_silu_1", kElementwise},
    {"void at::native::triu_tril_kernel<bool, int, false, 8, false>", kElementwise},
    {"aten::add_", kElementwise},
    {"aten::silu_backward", kElementwise},
    // Operators whose names begin alike
    {"aten::mm", kGemm},
    {"aten::addmm", kGemm},
    {"aten::linear", kGemm},
    {"triton_mm", kGemm},
    // Ours
    {"void steplens::(anonymous namespace)::rms_norm_backward_kernel<float>(...)", kNorm},
    {"void steplens::(anonymous namespace)::rope_qkv_kernel<__nv_bfloat16>(...)", kElementwise},
    {"void steplens::(anonymous namespace)::swiglu_forward_kernel<float>(...)", kElementwise},
    {"void steplens::(anonymous namespace)::cross_entropy_row_in_shared_kernel<__nv_bfloat16>(...)",
     kLoss},
    {"steplens::(anonymous namespace)::embedding_sum_kernel(...)", kEmbedding},
    {"steplens::(anonymous namespace)::gradient_norm_partial_kernel(...)", kReduction},
    {"steplens::(anonymous namespace)::adamw_update_kernel(...)", kOptimizer},
    // Unknown
    {"spin_kernel(long)", kOther},
    {"", kOther},
};

TEST(CategoryOf, KnowsTheNamesOfTheLibraries) {
  for (const Named& named : kNames) {
    EXPECT_EQ(name_of(category_of(named.name)), name_of(named.category)) << named.name;
  }
}

TEST(KernelCategory, NamesAreDistinct) {
  for (std::size_t i = 0; i < kNumKernelCategories; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(name_of(static_cast<KernelCategory>(i)), name_of(static_cast<KernelCategory>(j)));
    }
  }
}

TEST(KernelDisplayName, KeepsWhatTellsKernelsApart) {
  EXPECT_EQ(kernel_display_name(
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<"
                "float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, "
                "std::array<char*, 3ul>)"),
            "vectorized_elementwise_kernel<CUDAFunctor_add>");
  EXPECT_EQ(
      kernel_display_name(
          "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::"
          "TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() "
          "const::{lambda(float)#1}, std::array<char*, 2ul>, 4>(int)"),
      "unrolled_elementwise_kernel<direct_copy_kernel_cuda>");
  EXPECT_EQ(kernel_display_name(
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::("
                "anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::"
                "LpNormFunctor<float, 2> >(int)"),
            "multi_tensor_apply_kernel<LpNormFunctor>");
  EXPECT_EQ(kernel_display_name(
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::("
                "anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::("
                "anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1> >"
                "(int)"),
            "multi_tensor_apply_kernel<FusedAdamMathFunctor>");
  EXPECT_EQ(kernel_display_name("spin_kernel(long)"), "spin_kernel(long)");
  EXPECT_EQ(kernel_display_name("steplens::(anonymous namespace)::spin_kernel(long)"),
            "spin_kernel");
  EXPECT_EQ(kernel_display_name("fmha_cutlassF_bf16_aligned_64x64_rf_sm80("
                                "PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>)"),
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80");
}

TEST(KernelDisplayName, Demangles) {
  EXPECT_EQ(kernel_display_name("_ZN2at6native11fill_kernelIfEEvPfi"), "fill_kernel");
  EXPECT_EQ(demangled("_ZN8steplens11spin_kernelEl"), "steplens::spin_kernel(long)");
}

TEST(KernelDisplayName, LeavesOtherNamesAlone) {
  for (const std::string_view name :
       {"nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN", "aten::mm", "triton_poi_fused_add_0",
        "Memcpy HtoD (Pinned -> Device)", "", "_Zbroken", "a<b", "x>y", "<", "(", "void ", "~"}) {
    EXPECT_NO_THROW({
      const std::string shown = kernel_display_name(name);
      if (name.find_first_of("<>~") == std::string_view::npos) {
        EXPECT_EQ(shown, name);
      }
    });
  }
}

}  // namespace
}  // namespace steplens
