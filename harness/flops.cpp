#include "harness/flops.h"

#include <cmath>

#include <fmt/format.h>

namespace steplens {
namespace {

void require_positive(std::string_view field, std::int64_t value) {
  if (value <= 0) {
    throw ConfigError(fmt::format("{} is {}; allowed: 1 or more", field, value));
  }
}

void validate(const ModelShape& shape) {
  require_positive("num_layers", shape.num_layers);
  require_positive("d_model", shape.d_model);
  require_positive("num_heads", shape.num_heads);
  require_positive("num_kv_heads", shape.num_kv_heads);
  require_positive("head_dim", shape.head_dim);
  require_positive("ffn_width", shape.ffn_width);
  require_positive("vocab_size", shape.vocab_size);
  if (shape.num_heads % shape.num_kv_heads != 0) {
    throw ConfigError(fmt::format("num_kv_heads is {}; allowed: divisors of num_heads, which is {}",
                                  shape.num_kv_heads, shape.num_heads));
  }
}

/// Attention FLOPs of a sequence, divided by its length squared.
double attention_factor(const ModelShape& shape, AttentionFlops attention,
                        const HardwareWork& work) {
  const auto width = static_cast<double>(shape.num_layers * shape.num_heads * shape.head_dim);
  // Six products of 2*H*hd*T^2: Q*K^T and P*V forward, two gradients of each backward.
  const double num_products =
      6 + (work.has_attention_recompute ? 2 : 0) + (work.has_flash_backward ? 1 : 0);
  switch (attention) {
    case AttentionFlops::kCausal: return num_products * width;
    case AttentionFlops::kFull: return num_products * 2 * width;
    case AttentionFlops::kNone: return 0;
  }
  SL_CHECK(false);
  return 0;
}

double matmul_flops_per_token(const ModelShape& shape, const HardwareWork& work) {
  return (work.has_full_recompute ? 8.0 : 6.0) * static_cast<double>(num_matmul_parameters(shape));
}

struct KnownGpu {
  std::string_view name;  // Without the vendor, which old drivers leave out.
  double dense_bf16_flops_per_s;
  std::string_view source;
};

constexpr std::string_view kH100Sxm =
    "NVIDIA H100 white paper: bf16 dense (data sheet: 1,979 TFLOP/s with sparsity)";
constexpr std::string_view kA100 = "NVIDIA A100 data sheet: bf16 dense";

/// Names as NVML gives them, matched whole: "H200 NVL" or a MIG slice of an H200 is no H200.
constexpr KnownGpu kKnownGpus[] = {
    {"H200", 989.4e12,
     "NVIDIA H100 white paper: bf16 dense, same SMs (H200 data sheet: 1,979 TFLOP/s with "
     "sparsity)"},
    {"H100 80GB HBM3", 989.4e12, kH100Sxm},
    {"H100 PCIe", 756e12,
     "NVIDIA H100 PCIe data sheet: bf16 dense, half of the 1,513 TFLOP/s with sparsity"},
    {"H100 NVL", 835e12,
     "NVIDIA H100 NVL data sheet: bf16 dense, half of the 1,671 TFLOP/s with sparsity"},
    {"A100-SXM4-40GB", 312e12, kA100},
    {"A100-SXM4-80GB", 312e12, kA100},
    {"A100-SXM-80GB", 312e12, kA100},
    {"A100-PCIE-40GB", 312e12, kA100},
    {"A100 80GB PCIe", 312e12, kA100},
};

bool is_close(double value, double expected) {
  // Sparse figures are quoted with two to four digits.
  return std::abs(value - expected) <= 0.005 * expected;
}

}  // namespace

std::int64_t num_matmul_parameters(const ModelShape& shape) {
  validate(shape);
  const std::int64_t query = shape.d_model * shape.num_heads * shape.head_dim;
  const std::int64_t key = shape.d_model * shape.num_kv_heads * shape.head_dim;
  const std::int64_t output = query;
  const std::int64_t ffn = (shape.is_gated ? 3 : 2) * shape.d_model * shape.ffn_width;
  return shape.num_layers * (query + 2 * key + output + ffn) + shape.vocab_size * shape.d_model;
}

std::int64_t num_parameters(const ModelShape& shape) {
  const std::int64_t embedding = shape.vocab_size * shape.d_model;
  const std::int64_t norms = (2 * shape.num_layers + 1) * shape.d_model;
  return num_matmul_parameters(shape) + embedding + norms;
}

double flops_per_token(const ModelShape& shape, std::int64_t sequence_length,
                       AttentionFlops attention, const HardwareWork& work) {
  require_positive("sequence_length", sequence_length);
  return matmul_flops_per_token(shape, work) +
         attention_factor(shape, attention, work) * static_cast<double>(sequence_length);
}

double packed_flops(const ModelShape& shape, std::span<const std::int64_t> document_lengths,
                    AttentionFlops attention, const HardwareWork& work) {
  double num_tokens = 0;
  double sum_of_squares = 0;
  for (const std::int64_t document_length : document_lengths) {
    SL_CHECK(document_length >= 0);
    const auto length = static_cast<double>(document_length);
    num_tokens += length;
    sum_of_squares += length * length;
  }
  return matmul_flops_per_token(shape, work) * num_tokens +
         attention_factor(shape, attention, work) * sum_of_squares;
}

std::optional<PeakFlops> peak_bf16_flops_per_s(std::string_view gpu_name) {
  constexpr std::string_view kVendor = "NVIDIA ";
  if (gpu_name.starts_with(kVendor)) gpu_name.remove_prefix(kVendor.size());
  for (const KnownGpu& gpu : kKnownGpus) {
    if (gpu.name == gpu_name) {
      return PeakFlops{.flops_per_s = gpu.dense_bf16_flops_per_s,
                       .source = std::string(gpu.source)};
    }
  }
  return std::nullopt;
}

void validate_peak_flops_per_s(double peak_flops_per_s, std::string_view gpu_name) {
  constexpr double kSmallest = 1e9;
  if (!std::isfinite(peak_flops_per_s) || peak_flops_per_s < kSmallest) {
    throw ConfigError(
        fmt::format("peak_flops_per_s is {:g}; allowed: a finite number of FLOP/s of 1e9 or more "
                    "(989.4 TFLOP/s is 989.4e12)",
                    peak_flops_per_s));
  }
  const std::optional<PeakFlops> known = peak_bf16_flops_per_s(gpu_name);
  if (is_close(peak_flops_per_s, 1979e12) ||
      (known && is_close(peak_flops_per_s, 2 * known->flops_per_s))) {
    throw ConfigError(
        fmt::format("peak_flops_per_s is {:g}, the figure with sparsity; allowed: the dense peak, "
                    "half of it",
                    peak_flops_per_s));
  }
}

double mfu_ratio(double flops_per_token, double tokens_per_s, double peak_flops_per_s) {
  const auto is_amount = [](double value) { return std::isfinite(value) && value >= 0; };
  if (!is_amount(flops_per_token) || !is_amount(tokens_per_s) || !is_amount(peak_flops_per_s) ||
      peak_flops_per_s == 0) {
    throw ConfigError(
        fmt::format("MFU of flops_per_token {:g}, tokens_per_s {:g}, peak_flops_per_s {:g}; "
                    "allowed: finite numbers, not negative, and a peak above 0",
                    flops_per_token, tokens_per_s, peak_flops_per_s));
  }
  const double ratio = flops_per_token * tokens_per_s / peak_flops_per_s;
  if (ratio > 1) {
    throw ImpossibleMfu(fmt::format(
        "MFU is {:.4g}, above 1: {:g} FLOPs a token at {:g} tokens/s exceed "
        "peak_flops_per_s {:g}; allowed: the dense peak of the GPUs that gave that rate",
        ratio, flops_per_token, tokens_per_s, peak_flops_per_s));
  }
  return ratio;
}

Mfu model_flops_utilization(const ModelShape& shape, std::int64_t sequence_length,
                            double positions_per_s, const PeakFlops& peak) {
  Mfu mfu{.peak_flops_per_s = peak.flops_per_s,
          .peak_source = peak.source,
          .num_matmul_parameters = num_matmul_parameters(shape)};
  mfu.mfu_causal_ratio = mfu_ratio(flops_per_token(shape, sequence_length, AttentionFlops::kCausal),
                                   positions_per_s, peak.flops_per_s);
  const double full_ratio = flops_per_token(shape, sequence_length, AttentionFlops::kFull) *
                            positions_per_s / peak.flops_per_s;
  if (full_ratio <= 1) mfu.mfu_full_ratio = full_ratio;
  return mfu;
}

double ddp_bytes_per_optimizer_step(int world_size, std::int64_t gradient_bytes,
                                    int num_micro_steps, bool has_no_sync) {
  require_positive("world_size", world_size);
  require_positive("num_micro_steps", num_micro_steps);
  if (gradient_bytes < 0) {
    throw ConfigError(fmt::format("gradient_bytes is {}; allowed: 0 or more", gradient_bytes));
  }
  const double num_reductions = has_no_sync ? 1 : num_micro_steps;
  return 2.0 * (world_size - 1) / world_size * static_cast<double>(gradient_bytes) * num_reductions;
}

}  // namespace steplens
