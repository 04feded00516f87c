#include "reports/breakdown/kernel_patterns.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace steplens {
namespace {

// Matches a name, in lower case, in which `text` occurs, and `also` where there is one.
struct KernelPattern {
  KernelCategory category;
  std::string_view text;
  std::string_view also = {};
};

using enum KernelCategory;

// The first match wins, so what is special comes before what is general. Names of cuBLAS carry
// "gemm" or "nvjet", those of attention often carry "cutlass" or "gemm" as well: attention first.
constexpr KernelPattern kPatterns[] = {
    {kCommunication, "nccl"},
    {kCommunication, "nvshmem"},
    {kCommunication, "c10d"},
    {kCommunication, "gloo"},
    {kCommunication, "mpi::"},
    {kCommunication, "allreduce"},
    {kCommunication, "all_reduce"},
    {kCommunication, "all_gather"},
    {kCommunication, "reduce_scatter"},

    // Gradient norms go through the same launcher as the foreach optimizers.
    {kReduction, "multi_tensor_apply", "lpnorm"},
    {kReduction, "lpnorm_cleanup"},
    {kReduction, "aten::_foreach_norm"},
    {kReduction, "gradient_norm_"},
    {kOptimizer, "multi_tensor_apply"},
    {kOptimizer, "aten::_foreach_"},
    {kOptimizer, "adam"},
    {kOptimizer, "_fused_sgd"},
    {kOptimizer, "fusedsgd"},
    {kOptimizer, "_amp_"},
    {kOptimizer, "amp_update_scale"},

    {kAttention, "sdpa"},
    {kAttention, "fmha"},
    {kAttention, "flash"},
    {kAttention, "attention"},
    {kAttention, "scaled_dot_product"},
    {kAttention, "compute_dot_do_o"},  // Around cuDNN's backward kernel.
    {kAttention, "convert_dq_to"},

    {kLoss, "nll_loss"},
    {kLoss, "nllloss"},
    {kLoss, "cross_entropy"},
    {kLoss, "crossentropy"},
    {kLoss, "log_softmax"},
    {kLoss, "logsoftmax"},
    {kLoss, "mse_loss"},
    {kAttention, "softmax"},

    {kEmbedding, "embedding"},
    {kEmbedding, "indexselect"},
    {kEmbedding, "index_select"},
    {kEmbedding, "vectorized_gather"},
    {kEmbedding, "compute_grad_weight"},
    {kEmbedding, "sum_and_scatter"},
    {kEmbedding, "krn_partial"},
    {kEmbedding, "partial_segments"},
    // What sorts in a training step are the positions of an embedding's gradient, by token: ATen's
    // backward and ours. It ends with the list of distinct tokens.
    {kEmbedding, "radixsort"},
    {kEmbedding, "uniquebykey"},
    {kEmbedding, "devicecompactinit"},

    {kNorm, "layer_norm"},
    {kNorm, "layernorm"},
    {kNorm, "rms_norm"},
    {kNorm, "rmsnorm"},
    {kNorm, "group_norm"},
    {kNorm, "groupnorm"},
    {kNorm, "batch_norm"},
    {kNorm, "batchnorm"},
    {kNorm, "rowwisemoments"},
    {kNorm, "gammabeta"},
    {kNorm, "triton_", "rsqrt"},  // Inductor names a fused norm after its parts.

    {kGemm, "triton_mm"},
    {kGemm, "triton_tem_fused", "mm"},
    {kElementwise, "triton_poi"},
    {kReduction, "triton_red"},
    {kReduction, "triton_per"},

    {kGemm, "gemm"},
    {kGemm, "gemv"},
    {kGemm, "nvjet"},
    {kGemm, "cutlass"},
    {kGemm, "cublas"},
    {kGemm, "xmma"},
    {kGemm, "splitk"},
    {kGemm, "convolution"},
    {kGemm, "aten::conv"},
    {kGemm, "aten::mm"},
    {kGemm, "aten::addmm"},
    {kGemm, "aten::bmm"},
    {kGemm, "aten::baddbmm"},
    {kGemm, "aten::matmul"},
    {kGemm, "aten::linear"},
    {kGemm, "mkldnn_linear"},

    {kReduction, "aten::topk"},
    {kCopy, "memcpy"},
    {kCopy, "memset"},
    {kCopy, "copy_kernel"},
    {kCopy, "copy_device_to_device"},
    {kCopy, "batchedcopy"},
    {kCopy, "aten::copy_"},
    {kCopy, "aten::index_copy"},
    {kCopy, "aten::_to_copy"},
    {kCopy, "aten::to"},
    {kCopy, "aten::cat"},
    {kCopy, "aten::clone"},
    {kCopy, "aten::contiguous"},
    {kCopy, "aten::stack"},

    {kReduction, "reduce_kernel"},
    {kReduction, "devicereduce"},
    {kReduction, "devicescan"},
    {kReduction, "aten::sum"},
    {kReduction, "aten::mean"},
    {kReduction, "aten::amax"},
    {kReduction, "aten::argmax"},
    {kReduction, "aten::norm"},
    {kReduction, "aten::linalg_vector_norm"},
    {kReduction, "aten::cumsum"},

    {kElementwise, "elementwise"},
    {kElementwise, "dropout"},
    {kElementwise, "triu_tril"},
    {kElementwise, "swiglu"},
    {kElementwise, "rotary"},
    {kElementwise, "steplens", "rope"},
    {kElementwise, "aten::add"},
    {kElementwise, "aten::sub"},
    {kElementwise, "aten::rsub"},
    {kElementwise, "aten::mul"},
    {kElementwise, "aten::div"},
    {kElementwise, "aten::neg"},
    {kElementwise, "aten::pow"},
    {kElementwise, "aten::exp"},
    {kElementwise, "aten::sqrt"},
    {kElementwise, "aten::rsqrt"},
    {kElementwise, "aten::silu"},
    {kElementwise, "aten::gelu"},
    {kElementwise, "aten::relu"},
    {kElementwise, "aten::tanh"},
    {kElementwise, "aten::sigmoid"},
    {kElementwise, "aten::threshold"},
    {kElementwise, "aten::clamp"},
    {kElementwise, "aten::where"},
    {kElementwise, "aten::masked_fill"},
    {kElementwise, "aten::lerp"},
    {kElementwise, "aten::fill_"},
    {kElementwise, "aten::zero"},
    {kElementwise, "aten::ones"},
};

}  // namespace

std::string_view name_of(KernelCategory category) {
  switch (category) {
    case kGemm: return "gemm";
    case kAttention: return "attention";
    case kNorm: return "norm";
    case kElementwise: return "elementwise";
    case kReduction: return "reduction";
    case kLoss: return "loss";
    case kOptimizer: return "optimizer";
    case kEmbedding: return "embedding";
    case kCommunication: return "communication";
    case kCopy: return "copy";
    case kOther: return "other";
  }
  return "other";
}

KernelCategory category_of(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* const match = std::ranges::find_if(kPatterns, [&](const KernelPattern& pattern) {
    return lower.find(pattern.text) != std::string::npos &&
           (pattern.also.empty() || lower.find(pattern.also) != std::string::npos);
  });
  return match == std::end(kPatterns) ? kOther : match->category;
}

}  // namespace steplens
