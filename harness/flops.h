#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/error.h"

/// Floating-point operations of a Transformer's training step, and what share of a GPU's peak that
/// is (MFU). Legend: L layers, d model width, H heads, Hkv key/value heads, hd head size, f FFN
/// width, V vocabulary, T tokens of a sequence.
namespace steplens {

/// Sizes of a decoder-only Transformer.
struct ModelShape {
  std::int64_t num_layers = 0;
  std::int64_t d_model = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_width = 0;
  std::int64_t vocab_size = 0;
  bool is_gated = true;  // Three FFN matrices (SwiGLU) instead of two.

  bool operator==(const ModelShape&) const = default;
};

/// Parameters that take part in a matrix product, each counted once:
/// L*(d*H*hd + 2*d*Hkv*hd + H*hd*d + (3 or 2)*d*f) + V*d. The input embedding is a lookup and not
/// counted; the LM head is, tied or not. Throws ConfigError if a size is not positive, or if
/// `num_heads` is no multiple of `num_kv_heads`.
std::int64_t num_matmul_parameters(const ModelShape& shape);

/// All parameters of this project's models: the above, an untied input embedding, and the RMSNorm
/// weights (two a layer and a final one). No biases. Errors as above.
std::int64_t num_parameters(const ModelShape& shape);

/// Which attention products count. MFU figures are comparable only under the same convention.
enum class AttentionFlops : std::uint8_t {
  kCausal,  // The lower triangle: 6*L*H*hd*T a token (llm.c, llmq, Megatron).
  kFull,    // The whole square: 12*L*H*hd*T a token (PaLM, nanoGPT, torchtitan, llm-foundry).
  kNone,
};

/// Work that the hardware does beyond the model's, for HFU. With all off, HFU is MFU.
struct HardwareWork {
  // The matrix products' forward runs twice: their part times 4/3.
  bool has_full_recompute = false;
  // The attention's forward runs twice too: its part times 4/3. True of full activation
  // checkpointing of whole layers, and of selective checkpointing of the attention alone.
  bool has_attention_recompute = false;
  // Flash backward computes Q*K^T again: a seventh product beside two forward and four backward.
  bool has_flash_backward = false;
};

/// Forward + backward of one token in sequences of `sequence_length`: 6 * N_matmul + attention.
double flops_per_token(const ModelShape& shape, std::int64_t sequence_length,
                       AttentionFlops attention = AttentionFlops::kCausal,
                       const HardwareWork& work = {});

/// Forward + backward of all tokens of packed documents that do not attend to each other: the
/// attention's T^2 becomes the sum of squared lengths. Lengths are not negative.
double packed_flops(const ModelShape& shape, std::span<const std::int64_t> document_lengths,
                    AttentionFlops attention = AttentionFlops::kCausal,
                    const HardwareWork& work = {});

/// What a GPU can do at best, and who says so: an MFU without it means nothing.
struct PeakFlops {
  double flops_per_s = 0;
  std::string source;
};

/// Dense bf16 peak of the GPU with this NVML name ("NVIDIA H100 80GB HBM3"). Absent for an unknown
/// GPU and for a MIG slice, whose peak is only a part.
std::optional<PeakFlops> peak_bf16_flops_per_s(std::string_view gpu_name);

/// Checks a peak given by the user. `gpu_name` may be empty. Throws ConfigError if it is not a
/// positive number of FLOP/s (one below 1e9 was given in TFLOP/s), or the figure with sparsity:
/// 1979e12 anywhere, and twice the dense peak of a known GPU.
void validate_peak_flops_per_s(double peak_flops_per_s, std::string_view gpu_name);

/// An MFU above 1: the rate, the shape or the peak is wrong, so nothing may be printed.
struct ImpossibleMfu : ConfigError {
  using ConfigError::ConfigError;
};

/// Share of the peak: `flops_per_token` * `tokens_per_s` / `peak_flops_per_s`, with the rate and
/// the peak of the same GPUs. Throws ImpossibleMfu above 1, ConfigError if an argument is negative,
/// not finite, or a peak of zero.
double mfu_ratio(double flops_per_token, double tokens_per_s, double peak_flops_per_s);

/// The figures that are printed together, since none of them can be read alone.
struct Mfu {
  double mfu_causal_ratio = 0;
  // Absent above 1: it counts the masked half, which a flash kernel skips. Happens only where the
  // attention dwarfs the rest, such as at 100,000 tokens; the causal figure stands.
  std::optional<double> mfu_full_ratio;
  double peak_flops_per_s = 0;
  std::string peak_source;
  std::int64_t num_matmul_parameters = 0;
};

/// `positions_per_s`: of one GPU, padding included, because padding is computed too. Throws as
/// `mfu_ratio` of the causal convention.
Mfu model_flops_utilization(const ModelShape& shape, std::int64_t sequence_length,
                            double positions_per_s, const PeakFlops& peak);

/// Bytes that a rank sends in one optimizer step's gradient all-reduces around a ring:
/// 2*(W-1)/W * gradient bytes, once with `no_sync` and `num_micro_steps` times without. Throws
/// ConfigError if a count is not positive or the bytes are negative.
double ddp_bytes_per_optimizer_step(int world_size, std::int64_t gradient_bytes,
                                    int num_micro_steps, bool has_no_sync);

}  // namespace steplens
