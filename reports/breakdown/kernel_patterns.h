#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace steplens {

/// What an operation computes.
enum class KernelCategory : std::uint8_t {
  kGemm,
  kAttention,
  kNorm,
  kElementwise,
  kReduction,
  kLoss,
  kOptimizer,
  kEmbedding,
  kCommunication,
  kCopy,  // By the copy engines and by kernels that only move or cast.
  kOther,
};
inline constexpr std::size_t kNumKernelCategories = 11;

std::string_view name_of(KernelCategory category);  // "gemm", "attention", ...

/// Goes up with every change of the table, because it can change a breakdown: results store it.
inline constexpr int kKernelPatternsVersion = 2;

/// The category that the name of a kernel (mangled or demangled) or of an operator suggests. The
/// first pattern of an ordered table that occurs in the name wins, upper and lower case alike. The
/// name says what is computed, never which module or phase asked for it: for these only ranges
/// count.
KernelCategory category_of(std::string_view name);

}  // namespace steplens
