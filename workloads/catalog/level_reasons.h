#pragma once

#include <cstdint>
#include <string_view>

#include "harness/run_config.h"

/// Why a level of a toggle cannot run with the rest of the config, as a whole sentence's part;
/// empty if it can.
namespace steplens::reasons {

std::string_view needs_cuda(const RunConfig& config);
std::string_view no_mem_efficient(const RunConfig& config);
std::string_view no_flash(const RunConfig& config);
std::string_view no_cudnn(const RunConfig& config);
std::string_view no_bf16(const RunConfig& config);
std::string_view no_fp16(const RunConfig& config);
std::string_view no_fused_operators(const RunConfig& config);
std::string_view no_fused_residual(const RunConfig& config);
std::string_view no_loss_rows(const RunConfig& config);
std::string_view no_tuned_gemm(const RunConfig& config);
std::string_view no_bf16_master(const RunConfig& config);
std::string_view no_graph(const RunConfig& config);
std::string_view no_accumulation(const RunConfig& config, std::int64_t accumulation);
std::string_view one_rank(const RunConfig& config);
std::string_view no_no_sync(const RunConfig& config);
std::string_view several_ranks(const RunConfig& config);

}  // namespace steplens::reasons
