#include "workloads/catalog/level_reasons.h"

namespace steplens::reasons {

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
  // Without AVX512_BF16 or AMX a bf16 product on a CPU is emulated.
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

std::string_view no_fused_residual(const RunConfig& config) {
  if (config.dropout > 0) {
    return "residual=fused adds inside of the product, before dropout could act; set dropout=0";
  }
  return no_fused_operators(config);
}

std::string_view no_loss_rows(const RunConfig& config) {
  if (config.device != Device::kCuda) return needs_cuda(config);
  return config.loss == Operators::kFused
             ? ""
             : "loss=aten has the logits of all rows at once; set loss=fused";
}

std::string_view no_tuned_gemm(const RunConfig& config) {
  if (config.device != Device::kCuda) return needs_cuda(config);
  return config.precision == Precision::kFp16
             ? "gemm=tuned takes bf16, fp32 and tf32; precision=fp16 has none"
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

std::string_view several_ranks(const RunConfig& config) {
  return config.world_size == 1 ? "" : "several ranks: their gradients pass the Reducer anyhow";
}

}  // namespace steplens::reasons
