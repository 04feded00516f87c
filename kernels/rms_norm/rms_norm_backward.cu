// RMSNorm backward: dr row by row, dweight in two stages.
//
// N: rows, C: channels, P: blocks of the first stage, each with one row of partial sums in the
// workspace (P, C); n: a row, c: a channel.

#include "kernels/rms_norm/rms_norm_backward.cuh"

#include <algorithm>
#include <limits>

#include "kernels/cuda_check.h"
#include "kernels/device.h"
#include "kernels/dropout/dropout.cuh"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace rms_norm_backward_detail {
namespace {

constexpr std::string_view kOp = "rms_norm_backward";

template <typename Visit>
bool visit_types(const RmsNormBackwardArgs& args, Visit&& visit) {
  const bool dy_is_float = args.dy_type == ElementType::kFloat32;
  const bool stream_is_float = args.stream_type == ElementType::kFloat32;
  const float* f = nullptr;
  const Bfloat16* b = nullptr;
  if (dy_is_float && stream_is_float) return visit(f, f), true;
  if (!dy_is_float && stream_is_float) return visit(b, f), true;
  if (!dy_is_float) return visit(b, b), true;
  return false;
}

// ---- Second stage, of all variants: a block sums 32 channels over the P partial sums, each thread
// every 32nd of them. ----

constexpr int kColumns = 32;
constexpr int kSlices = 32;

__global__ void __launch_bounds__(kColumns* kSlices)
    rms_norm_backward_sum_partials(const float* partials, int num_partials, std::int64_t C,
                                   float* dweight) {
  cudaGridDependencySynchronize();  // Launched while the first stage's last blocks run.
  __shared__ float sums[kSlices][kColumns + 1];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0.0f;
  if (c < C) {
#pragma unroll 4
    for (int p = static_cast<int>(threadIdx.y); p < num_partials; p += kSlices) {
      sum += partials[p * C + c];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Warp y adds up the slices of channel y.
  sum = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const std::int64_t summed_c = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.y;
  if (threadIdx.x == 0 && summed_c < C) dweight[summed_c] = sum;
}

}  // namespace

void check(const RmsNormBackwardArgs& args) {
  check_argument(args.N >= 0 && args.N <= std::numeric_limits<int>::max(), kOp, "N", args.N,
                 "0 to 2147483647");
  check_argument(args.C >= 1, kOp, "C", args.C, "1 and more");
  const int types = static_cast<int>(args.dy_type) * 2 + static_cast<int>(args.stream_type);
  check_argument(visit_types(args, [](auto...) {}), kOp, "dy_type, stream_type", types,
                 "a combination of element types that its header lists");
  check_dropout(args.dropout, kOp);
  check_argument(!args.dropout.drops() || args.dx != nullptr, kOp, "dx", 0,
                 "a buffer where x was dropped out");
}

void launch_sum_partials(const RmsNormBackwardArgs& args, int num_partials, cudaStream_t stream) {
  const auto num_blocks = static_cast<unsigned>((args.C + kColumns - 1) / kColumns);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = num_blocks;
  config.blockDim = dim3(kColumns, kSlices);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  SL_CUDA(cudaLaunchKernelEx(&config, &rms_norm_backward_sum_partials,
                             static_cast<const float*>(args.workspace), num_partials, args.C,
                             args.dweight));
}

namespace {

// ---- block_per_row: a block walks its rows twice, element by element; its partial sums lie in the
// workspace, each channel with one thread. ----

constexpr int kScalarBlockSize = 256;

template <typename G, typename S>
__global__ void __launch_bounds__(kScalarBlockSize)
    rms_norm_backward_block_per_row(const RmsNormBackwardArgs args) {
  __shared__ float slots[2 * kScalarBlockSize / kWarpSize];
  const bool weight_is_bfloat16 = args.weight_type == ElementType::kBfloat16;
  float* partial = static_cast<float*>(args.workspace) + blockIdx.x * args.C;
  for (std::int64_t c = threadIdx.x; c < args.C; c += kScalarBlockSize) partial[c] = 0.0f;

  int parity = 0;
  for (std::int64_t n = blockIdx.x; n < args.N; n += gridDim.x, parity ^= 1) {
    const G* dy = static_cast<const G*>(args.dy) + n * args.C;
    const S* r = static_cast<const S*>(args.r) + n * args.C;
    const float rstd = args.rstd[n];
    float dot = 0.0f;
    for (std::int64_t c = threadIdx.x; c < args.C; c += kScalarBlockSize) {
      const float gradient = to_float(dy[c]);
      const float value = to_float(r[c]);
      dot += gradient * load_shared_value(args.weight, weight_is_bfloat16, c) * value;
      partial[c] += gradient * value * rstd;
    }
    dot = group_sum<kScalarBlockSize>(dot, slots, parity);
    const float scale = dot / static_cast<float>(args.C) * rstd * rstd;
    for (std::int64_t c = threadIdx.x; c < args.C; c += kScalarBlockSize) {
      const float weight = load_shared_value(args.weight, weight_is_bfloat16, c);
      float value = rstd * (to_float(dy[c]) * weight - to_float(r[c]) * scale);
      if (args.dr_in != nullptr) {
        value += to_float(static_cast<const S*>(args.dr_in)[n * args.C + c]);
      }
      static_cast<S*>(args.dr)[n * args.C + c] = from_float<S>(value);
      if (args.dx != nullptr) {
        float dx[1] = {value};
        if (args.dropout.drops()) drop<1>(make_draw(args.dropout), n * args.C + c, dx);
        static_cast<G*>(args.dx)[n * args.C + c] = from_float<G>(dx[0]);
      }
    }
  }
}

void launch_block_per_row(const RmsNormBackwardArgs& args, cudaStream_t stream) {
  check(args);
  const int num_blocks = static_cast<int>(
      std::clamp<std::int64_t>(args.N, 1, num_multiprocessors() * kMaxBlocksPerMultiprocessor));
  visit_types(args, [&]<typename G, typename S>(const G*, const S*) {
    rms_norm_backward_block_per_row<G, S><<<num_blocks, kScalarBlockSize, 0, stream>>>(args);
  });
  SL_CUDA(cudaGetLastError());
  launch_sum_partials(args, num_blocks, stream);
}

// ---- row_in_registers: 32 to 512 threads hold a row of each input in registers as 16-byte
// vectors; each element is read once. 512 threads a multiprocessor, so that there are few partial
// sums: they stay in registers until the last row, then the groups of a block add up in turn. ----

constexpr int kThreadsPerMultiprocessor = 512;

// A block of warps that each walk rows of their own, or of the threads of one row: such a block's
// barrier holds up no other row.
template <int kThreadsPerRow>
inline constexpr int kVectorBlockSize =
    kThreadsPerRow == kWarpSize ? kThreadsPerMultiprocessor : kThreadsPerRow;

template <typename G, typename S, bool kDrops, int kThreadsPerRow, int kVectors>
__global__ void __launch_bounds__(kVectorBlockSize<kThreadsPerRow>,
                                  kThreadsPerMultiprocessor / kVectorBlockSize<kThreadsPerRow>)
    rms_norm_backward_row_in_registers(const RmsNormBackwardArgs args) {
  constexpr int kWidth = kVectorWidth<G, S>;
  constexpr int kGroups = kVectorBlockSize<kThreadsPerRow> / kThreadsPerRow;
  constexpr int kMaxC = kThreadsPerRow * kVectors * kWidth;
  __shared__ float slots[2 * kThreadsPerRow / kWarpSize];
  __shared__ float sums[kMaxC];
  const int group = static_cast<int>(threadIdx.x) / kThreadsPerRow;
  const int lane = static_cast<int>(threadIdx.x) % kThreadsPerRow;
  const bool weight_is_bfloat16 = args.weight_type == ElementType::kBfloat16;
  const float reciprocal = 1.0f / static_cast<float>(args.C);

  DropoutDraw draw{};
  if constexpr (kDrops) draw = make_draw(args.dropout);
  float dweight[kVectors][kWidth] = {};
  int parity = 0;
  for (std::int64_t n = static_cast<std::int64_t>(group) * gridDim.x + blockIdx.x; n < args.N;
       n += static_cast<std::int64_t>(gridDim.x) * kGroups, parity ^= 1) {
    const std::int64_t start = n * args.C;
    Packed<G, kWidth> packed_dy[kVectors];
    Packed<S, kWidth> packed_r[kVectors];
    Packed<S, kWidth> packed_dr[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= args.C) continue;
      packed_dy[k].load(static_cast<const G*>(args.dy) + start + c);
      packed_r[k].load(static_cast<const S*>(args.r) + start + c);
    }
    if (args.dr_in != nullptr) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        const int c = (k * kThreadsPerRow + lane) * kWidth;
        if (c < args.C) packed_dr[k].load(static_cast<const S*>(args.dr_in) + start + c);
      }
    }
    const float rstd = args.rstd[n];

    float dot = 0.0f;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= args.C) continue;
      float gradient[kWidth];
      float value[kWidth];
      float weight[kWidth];
      packed_dy[k].unpack(gradient);
      packed_r[k].unpack(value);
      load_shared_values<kWidth>(args.weight, weight_is_bfloat16, c, weight);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float product = gradient[i] * value[i];
        dot += product * weight[i];
        dweight[k][i] += product * rstd;
      }
    }
    dot = group_sum<kThreadsPerRow>(dot, slots, parity);
    const float scale = dot * reciprocal * rstd * rstd;

#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= args.C) continue;
      float gradient[kWidth];
      float value[kWidth];
      float weight[kWidth];
      packed_dy[k].unpack(gradient);
      packed_r[k].unpack(value);
      load_shared_values<kWidth>(args.weight, weight_is_bfloat16, c, weight);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        gradient[i] = rstd * (gradient[i] * weight[i] - value[i] * scale);
      }
      if (args.dr_in != nullptr) {
        packed_dr[k].unpack(value);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) gradient[i] += value[i];
      }
      Packed<S, kWidth> packed;
      packed.pack(gradient);
      packed.store(static_cast<S*>(args.dr) + start + c);
      if (args.dx != nullptr) {
        if constexpr (kDrops) drop<kWidth>(draw, start + c, gradient);
        Packed<G, kWidth> packed_dx;
        packed_dx.pack(gradient);
        packed_dx.store(static_cast<G*>(args.dx) + start + c);
      }
    }
  }

  cudaTriggerProgrammaticLaunchCompletion();
  for (int turn = 0; turn < kGroups; ++turn) {
    if (turn == group) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        const int c = (k * kThreadsPerRow + lane) * kWidth;
        if (c >= args.C) continue;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          sums[c + i] = dweight[k][i] + (turn == 0 ? 0.0f : sums[c + i]);
        }
      }
    }
    __syncthreads();
  }
  float* partial = static_cast<float*>(args.workspace) + blockIdx.x * args.C;
  for (int c = static_cast<int>(threadIdx.x); c < args.C; c += kVectorBlockSize<kThreadsPerRow>) {
    partial[c] = sums[c];
  }
}

int vector_width(const RmsNormBackwardArgs& args) {
  return args.dy_type == ElementType::kBfloat16 ? 8 : 4;
}

constexpr std::int64_t kMaxVectors = 512 * 2;  // Of a row, in the largest configuration below.

bool fits_row_in_registers(const RmsNormBackwardArgs& args) {
  return args.C % vector_width(args) == 0 && args.C / vector_width(args) <= kMaxVectors &&
         is_aligned(args.dy) && is_aligned(args.r) && is_aligned(args.weight) &&
         is_aligned(args.dr_in) && is_aligned(args.dr) && is_aligned(args.dx);
}

void launch_row_in_registers(const RmsNormBackwardArgs& args, cudaStream_t stream) {
  check(args);
  const std::int64_t num_vectors = args.C / vector_width(args);
  int num_blocks = 0;
  visit_types(args, [&]<typename G, typename S>(const G*, const S*) {
    const auto launch = [&]<int kThreadsPerRow, int kVectors>() {
      constexpr int kBlockSize = kVectorBlockSize<kThreadsPerRow>;
      num_blocks = static_cast<int>(std::clamp<std::int64_t>(
          args.N, 1, num_multiprocessors() * (kThreadsPerMultiprocessor / kBlockSize)));
      const auto kernel =
          args.dropout.drops()
              ? &rms_norm_backward_row_in_registers<G, S, true, kThreadsPerRow, kVectors>
              : &rms_norm_backward_row_in_registers<G, S, false, kThreadsPerRow, kVectors>;
      kernel<<<static_cast<unsigned>(num_blocks), kBlockSize, 0, stream>>>(args);
    };
    if (num_vectors <= 32) return launch.template operator()<32, 1>();
    if (num_vectors <= 96) return launch.template operator()<32, 3>();
    if (num_vectors <= 256) return launch.template operator()<128, 2>();
    if (num_vectors <= 512) return launch.template operator()<256, 2>();
    launch.template operator()<512, 2>();
  });
  SL_CUDA(cudaGetLastError());
  launch_sum_partials(args, num_blocks, stream);
}

bool always(const RmsNormBackwardArgs&) { return true; }

constexpr RmsNormBackwardVariant kVariants[] = {
    {"block_per_row", "a block walks its rows twice, element by element", &always,
     &launch_block_per_row},
    {"row_in_registers",
     "rows and partial sums of dweight stay in registers: one read of each element",
     &fits_row_in_registers, &launch_row_in_registers},
    {"row_in_shared",
     "the next rows arrive in shared memory while one is computed: loads never pause",
     &fits_row_in_shared, &launch_row_in_shared},
};

}  // namespace
}  // namespace rms_norm_backward_detail

using namespace rms_norm_backward_detail;

std::size_t rms_norm_backward_workspace_bytes(std::int64_t N, std::int64_t C) {
  const std::int64_t num_partials =
      std::clamp<std::int64_t>(N, 1, num_multiprocessors() * kMaxBlocksPerMultiprocessor);
  return static_cast<std::size_t>(num_partials * C) * sizeof(float);
}

std::span<const RmsNormBackwardVariant> rms_norm_backward_variants() { return kVariants; }

void rms_norm_backward(const RmsNormBackwardArgs& args, cudaStream_t stream) {
  const RmsNormBackwardVariant* best = &kVariants[0];
  for (const RmsNormBackwardVariant& variant : kVariants) {
    if (variant.is_applicable(args)) best = &variant;
  }
  best->launch(args, stream);
}

}  // namespace steplens
