// RMSNorm forward. Memory bound: each element is read once and written once.
//
// N: rows, C: channels, n: a row, c: a channel, K: vectors of a row that one thread holds.

#include <limits>

#include "kernels/cuda_check.h"
#include "kernels/dropout/dropout.cuh"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace {

constexpr std::string_view kOp = "rms_norm_forward";

// What happens to x before the norm.
enum class Before { kNothing, kAdd, kDropAndAdd };
template <Before kBefore>
using BeforeConstant = std::integral_constant<Before, kBefore>;

// The combinations of x_type, stream_type and y_type that exist; `visit` gets a null pointer of
// each type and a BeforeConstant.
template <typename Visit>
bool visit_types(const RmsNormForwardArgs& args, Visit&& visit) {
  const bool x_is_float = args.x_type == ElementType::kFloat32;
  const bool y_is_float = args.y_type == ElementType::kFloat32;
  const float* f = nullptr;
  const Bfloat16* b = nullptr;
  if (args.residual == nullptr) {
    constexpr BeforeConstant<Before::kNothing> kNothing;
    if (x_is_float && y_is_float) return visit(f, f, f, kNothing), true;
    if (x_is_float) return visit(f, f, b, kNothing), true;
    if (!y_is_float) return visit(b, b, b, kNothing), true;
    return false;
  }
  const bool stream_is_float = args.stream_type == ElementType::kFloat32;
  const auto visit_residual = [&](auto before) {
    if (x_is_float && stream_is_float && y_is_float) return visit(f, f, f, before), true;
    if (!x_is_float && !y_is_float && stream_is_float) return visit(b, f, b, before), true;
    if (!x_is_float && !y_is_float) return visit(b, b, b, before), true;
    return false;
  };
  return args.dropout.drops() ? visit_residual(BeforeConstant<Before::kDropAndAdd>{})
                              : visit_residual(BeforeConstant<Before::kAdd>{});
}

void check(const RmsNormForwardArgs& args) {
  check_argument(args.N >= 0 && args.N <= std::numeric_limits<int>::max(), kOp, "N", args.N,
                 "0 to 2147483647");
  check_argument(args.C >= 1, kOp, "C", args.C, "1 and more");
  check_argument((args.residual == nullptr) == (args.r == nullptr), kOp, "r",
                 args.r == nullptr ? 0 : 1, "a buffer with a residual, null without one");
  check_dropout(args.dropout, kOp);
  check_argument(!args.dropout.drops() || args.residual != nullptr, kOp, "residual", 0,
                 "a buffer where x is dropped out");
  const int types = static_cast<int>(args.x_type) * 4 + static_cast<int>(args.stream_type) * 2 +
                    static_cast<int>(args.y_type);
  check_argument(visit_types(args, [](auto...) {}), kOp, "x_type, stream_type, y_type", types,
                 "a combination of element types that its header lists");
}

// ---- block_per_row: a block walks its row twice, element by element; any length, any alignment.
// The second walk finds the row in the caches. ----

constexpr int kScalarBlockSize = 256;

template <typename X, typename S, typename Y, Before kBefore>
__global__ void __launch_bounds__(kScalarBlockSize)
    rms_norm_forward_block_per_row(const RmsNormForwardArgs args) {
  constexpr bool kHasResidual = kBefore != Before::kNothing;
  __shared__ float slots[kScalarBlockSize / kWarpSize];
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * args.C;
  const X* x = static_cast<const X*>(args.x) + start;
  const S* residual = static_cast<const S*>(args.residual) + (kHasResidual ? start : 0);
  S* r = static_cast<S*>(args.r) + (kHasResidual ? start : 0);
  Y* y = static_cast<Y*>(args.y) + start;

  DropoutDraw draw{};
  if constexpr (kBefore == Before::kDropAndAdd) draw = make_draw(args.dropout);
  float sum_squares = 0.0f;
  for (std::int64_t c = threadIdx.x; c < args.C; c += kScalarBlockSize) {
    float value = to_float(x[c]);
    if constexpr (kHasResidual) {
      if constexpr (kBefore == Before::kDropAndAdd) {
        float dropped[1] = {value};
        drop<1>(draw, start + c, dropped);
        value = dropped[0];
      }
      const S rounded = from_float<S>(value + to_float(residual[c]));
      r[c] = rounded;
      value = to_float(rounded);
    }
    sum_squares += value * value;
  }
  sum_squares = group_sum<kScalarBlockSize>(sum_squares, slots, 0);
  const float rstd = rsqrtf(sum_squares / static_cast<float>(args.C) + args.epsilon);
  if (threadIdx.x == 0 && args.rstd != nullptr) args.rstd[blockIdx.x] = rstd;

  const bool weight_is_bfloat16 = args.weight_type == ElementType::kBfloat16;
  for (std::int64_t c = threadIdx.x; c < args.C; c += kScalarBlockSize) {
    float value;
    if constexpr (kHasResidual) {
      value = to_float(r[c]);  // Written by this thread.
    } else {
      value = to_float(x[c]);
    }
    y[c] = from_float<Y>(value * rstd * load_shared_value(args.weight, weight_is_bfloat16, c));
  }
}

void launch_block_per_row(const RmsNormForwardArgs& args, cudaStream_t stream) {
  check(args);
  if (args.N == 0) return;
  visit_types(args, [&]<typename X, typename S, typename Y, typename BeforeNorm>(
                        const X*, const S*, const Y*, BeforeNorm) {
    rms_norm_forward_block_per_row<X, S, Y, BeforeNorm::value>
        <<<static_cast<unsigned>(args.N), kScalarBlockSize, 0, stream>>>(args);
  });
  SL_CUDA(cudaGetLastError());
}

// ---- row_in_registers: 32 to 256 threads hold a row in registers as 16-byte vectors, all loads in
// flight before the first sum; each element is read once. ----

constexpr int kVectorBlockSize = 128;

template <typename X, typename S, typename Y, Before kBefore, int kThreadsPerRow, int kVectors>
__global__ void __launch_bounds__(kThreadsPerRow > kVectorBlockSize ? kThreadsPerRow
                                                                    : kVectorBlockSize)
    rms_norm_forward_row_in_registers(const RmsNormForwardArgs args) {
  constexpr bool kHasResidual = kBefore != Before::kNothing;
  constexpr int kWidth = kVectorWidth<X, S, Y>;
  constexpr int kRowsPerBlock =
      kThreadsPerRow > kVectorBlockSize ? 1 : kVectorBlockSize / kThreadsPerRow;
  __shared__ float slots[kThreadsPerRow / kWarpSize];
  const int group = static_cast<int>(threadIdx.x) / kThreadsPerRow;
  const int lane = static_cast<int>(threadIdx.x) % kThreadsPerRow;
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + group;
  if (n >= args.N) return;  // The whole group leaves.

  const std::int64_t start = n * args.C;
  const X* x = static_cast<const X*>(args.x) + start;
  const S* residual = static_cast<const S*>(args.residual) + (kHasResidual ? start : 0);
  Packed<X, kWidth> packed_x[kVectors];
  Packed<S, kWidth> packed_residual[kHasResidual ? kVectors : 1];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int c = (k * kThreadsPerRow + lane) * kWidth;
    if (c < args.C) packed_x[k].load(x + c);
  }
  if constexpr (kHasResidual) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c < args.C) packed_residual[k].load(residual + c);
    }
  }

  float row[kVectors][kWidth];
  DropoutDraw draw{};
  if constexpr (kBefore == Before::kDropAndAdd) draw = make_draw(args.dropout);
  float sum_squares = 0.0f;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int c = (k * kThreadsPerRow + lane) * kWidth;
    if (c >= args.C) continue;
    packed_x[k].unpack(row[k]);
    if constexpr (kHasResidual) {
      if constexpr (kBefore == Before::kDropAndAdd) {
        drop<kWidth>(draw, start + c, row[k]);
      }
      float addend[kWidth];
      packed_residual[k].unpack(addend);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) row[k][i] += addend[i];
      Packed<S, kWidth> packed;
      packed.pack(row[k]);
      packed.store(static_cast<S*>(args.r) + start + c);
      packed.unpack(row[k]);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum_squares += row[k][i] * row[k][i];
  }
  sum_squares = group_sum<kThreadsPerRow>(sum_squares, slots, 0);
  const float rstd = rsqrtf(sum_squares / static_cast<float>(args.C) + args.epsilon);
  if (lane == 0 && args.rstd != nullptr) args.rstd[n] = rstd;

  const bool weight_is_bfloat16 = args.weight_type == ElementType::kBfloat16;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int c = (k * kThreadsPerRow + lane) * kWidth;
    if (c >= args.C) continue;
    float weight[kWidth];
    load_shared_values<kWidth>(args.weight, weight_is_bfloat16, c, weight);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) row[k][i] *= rstd * weight[i];
    Packed<Y, kWidth> packed;
    packed.pack(row[k]);
    packed.store(static_cast<Y*>(args.y) + start + c);
  }
}

int vector_width(const RmsNormForwardArgs& args) {
  const bool has_bfloat16 =
      args.x_type == ElementType::kBfloat16 || args.y_type == ElementType::kBfloat16;
  return has_bfloat16 ? 8 : 4;
}

constexpr std::int64_t kMaxVectors = 256 * 4;  // Of a row, in the largest configuration below.

bool fits_row_in_registers(const RmsNormForwardArgs& args) {
  return args.C % vector_width(args) == 0 && args.C / vector_width(args) <= kMaxVectors &&
         is_aligned(args.x) && is_aligned(args.residual) && is_aligned(args.weight) &&
         is_aligned(args.r) && is_aligned(args.y);
}

void launch_row_in_registers(const RmsNormForwardArgs& args, cudaStream_t stream) {
  check(args);
  if (args.N == 0) return;
  const std::int64_t num_vectors = args.C / vector_width(args);
  visit_types(args, [&]<typename X, typename S, typename Y, typename BeforeNorm>(
                        const X*, const S*, const Y*, BeforeNorm) {
    const auto launch = [&]<int kThreadsPerRow, int kVectors>() {
      constexpr int kBlockSize =
          kThreadsPerRow > kVectorBlockSize ? kThreadsPerRow : kVectorBlockSize;
      constexpr int kRowsPerBlock = kBlockSize / kThreadsPerRow;
      const auto num_blocks = static_cast<unsigned>((args.N + kRowsPerBlock - 1) / kRowsPerBlock);
      rms_norm_forward_row_in_registers<X, S, Y, BeforeNorm::value, kThreadsPerRow, kVectors>
          <<<num_blocks, kBlockSize, 0, stream>>>(args);
    };
    if (num_vectors <= 32) return launch.template operator()<32, 1>();
    if (num_vectors <= 96) return launch.template operator()<32, 3>();
    if (num_vectors <= 256) return launch.template operator()<128, 2>();
    if (num_vectors <= 512) return launch.template operator()<128, 4>();
    launch.template operator()<256, 4>();
  });
  SL_CUDA(cudaGetLastError());
}

bool always(const RmsNormForwardArgs&) { return true; }

constexpr RmsNormForwardVariant kVariants[] = {
    {"block_per_row", "a block walks its row twice, element by element", &always,
     &launch_block_per_row},
    {"row_in_registers", "the row stays in registers as 16-byte vectors: one read of each element",
     &fits_row_in_registers, &launch_row_in_registers},
};

}  // namespace

std::span<const RmsNormForwardVariant> rms_norm_forward_variants() { return kVariants; }

void rms_norm_forward(const RmsNormForwardArgs& args, cudaStream_t stream) {
  (fits_row_in_registers(args) ? &launch_row_in_registers : &launch_block_per_row)(args, stream);
}

}  // namespace steplens
