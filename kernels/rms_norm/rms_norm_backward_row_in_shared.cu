// RMSNorm backward with rows that arrive in shared memory.
//
// N: rows, C: channels, n: a row, c: a channel, K: vectors of a row that one thread holds. A group:
// the threads of one row.

#include <algorithm>

#include "kernels/bulk_copy.cuh"
#include "kernels/cuda_check.h"
#include "kernels/device.h"
#include "kernels/rms_norm/rms_norm_backward.cuh"
#include "kernels/vector.cuh"

namespace steplens::rms_norm_backward_detail {
namespace {

// ---- row_in_shared: the copy engine brings each group's rows of dy, r and dr_in into shared
// memory, two rows ahead. A group takes a row into registers and gives its place to the row after
// the next before it computes: row_in_registers asks for nothing while it computes, and 16 warps a
// multiprocessor, all that its registers allow, did not hide that. Rows of 768 now move at 94 % of
// a device copy's rate on an H200, for 82 % there. All in bf16: an fp32 stream's rows fill the
// registers that the partial sums and the weight need. ----

constexpr int kWidth = 8;  // Elements of a 16-byte access.
constexpr int kStages = 2;
constexpr int kThreadsPerMultiprocessor = 512;

template <int kThreadsPerRow>
inline constexpr int kBlockSize =
    kThreadsPerRow == kWarpSize ? kThreadsPerMultiprocessor : kThreadsPerRow;

struct RowCopies {
  const Bfloat16* sources[3];  // dy, r, dr_in.
  int num_sources;             // 2 without dr_in.
  unsigned row_bytes;

  // Row n, its sources one behind the other.
  __device__ void start(unsigned char* to, std::int64_t n, std::uint64_t* barrier) const {
    expect_bytes(barrier, static_cast<unsigned>(num_sources) * row_bytes);
    for (int i = 0; i < num_sources; ++i) {
      copy_to_shared(to + static_cast<unsigned>(i) * row_bytes, sources[i] + n * (row_bytes / 2),
                     row_bytes, barrier);
    }
  }
};

template <int kThreadsPerRow, int kVectors>
__global__ void __launch_bounds__(kBlockSize<kThreadsPerRow>,
                                  kThreadsPerMultiprocessor / kBlockSize<kThreadsPerRow>)
    rms_norm_backward_row_in_shared(const RmsNormBackwardArgs args) {
  constexpr int kGroups = kBlockSize<kThreadsPerRow> / kThreadsPerRow;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ std::uint64_t barriers[kGroups][kStages];
  __shared__ float slots[2 * kThreadsPerRow / kWarpSize];
  const int group = static_cast<int>(threadIdx.x) / kThreadsPerRow;
  const int lane = static_cast<int>(threadIdx.x) % kThreadsPerRow;
  const auto C = static_cast<int>(args.C);
  const bool has_dr_in = args.dr_in != nullptr;
  const RowCopies copies = {
      .sources = {static_cast<const Bfloat16*>(args.dy), static_cast<const Bfloat16*>(args.r),
                  static_cast<const Bfloat16*>(args.dr_in)},
      .num_sources = has_dr_in ? 3 : 2,
      .row_bytes = static_cast<unsigned>(C) * 2};
  const unsigned stage_bytes = 3 * copies.row_bytes;
  unsigned char* const rows = memory + static_cast<unsigned>(group * kStages) * stage_bytes;
  const std::int64_t first = static_cast<std::int64_t>(group) * gridDim.x + blockIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kGroups;

  if (threadIdx.x == 0) {
    for (auto& group_barriers : barriers) {
      for (std::uint64_t& barrier : group_barriers) init_barrier(&barrier);
    }
    publish_barriers();
  }
  __syncthreads();
  if (lane == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      const std::int64_t n = first + stage * stride;
      if (n < args.N) {
        copies.start(rows + static_cast<unsigned>(stage) * stage_bytes, n, &barriers[group][stage]);
      }
    }
  }

  const bool weight_is_bfloat16 = args.weight_type == ElementType::kBfloat16;
  float weight[kVectors][kWidth];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int c = (k * kThreadsPerRow + lane) * kWidth;
    if (c < C) load_shared_values<kWidth>(args.weight, weight_is_bfloat16, c, weight[k]);
  }
  const float reciprocal = 1.0f / static_cast<float>(C);
  float dweight[kVectors][kWidth] = {};
  float next_rstd = first < args.N ? args.rstd[first] : 0.0f;
  int stage = 0;
  unsigned parity = 0;
  int slot_parity = 0;
  for (std::int64_t n = first; n < args.N; n += stride, slot_parity ^= 1) {
    const float rstd = next_rstd;
    if (n + stride < args.N) next_rstd = args.rstd[n + stride];
    unsigned char* const place = rows + static_cast<unsigned>(stage) * stage_bytes;
    const auto* const values = reinterpret_cast<const Bfloat16*>(place);
    wait_barrier(&barriers[group][stage], parity);

    Packed<Bfloat16, kWidth> packed_dy[kVectors];
    Packed<Bfloat16, kWidth> packed_r[kVectors];
    Packed<Bfloat16, kWidth> packed_dr[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= C) continue;
      packed_dy[k].load(values + c);
      packed_r[k].load(values + C + c);
      if (has_dr_in) packed_dr[k].load(values + 2 * C + c);
    }

    float dot = 0.0f;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= C) continue;
      float gradient[kWidth];
      float value[kWidth];
      packed_dy[k].unpack(gradient);
      packed_r[k].unpack(value);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float product = gradient[i] * value[i];
        dot += product * weight[k][i];
        dweight[k][i] += product * rstd;
      }
    }
    // All threads of the group have read the row when they leave this.
    dot = group_sum<kThreadsPerRow>(dot, slots, slot_parity);
    if constexpr (kThreadsPerRow == kWarpSize) __syncwarp();
    if (lane == 0 && n + kStages * stride < args.N) {
      copies.start(place, n + kStages * stride, &barriers[group][stage]);
    }
    parity ^= static_cast<unsigned>(stage);
    stage = 1 - stage;

    const float scale = dot * reciprocal * rstd * rstd;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= C) continue;
      float gradient[kWidth];
      float value[kWidth];
      packed_dy[k].unpack(gradient);
      packed_r[k].unpack(value);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        gradient[i] = rstd * (gradient[i] * weight[k][i] - value[i] * scale);
      }
      if (has_dr_in) {
        packed_dr[k].unpack(value);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) gradient[i] += value[i];
      }
      Packed<Bfloat16, kWidth> packed;
      packed.pack(gradient);
      packed.store(static_cast<Bfloat16*>(args.dr) + n * C + c);
    }
  }

  cudaTriggerProgrammaticLaunchCompletion();
  float* const partial = static_cast<float*>(args.workspace) + blockIdx.x * args.C;
  if constexpr (kGroups == 1) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= C) continue;
      Packed<float, kWidth> packed;
      packed.pack(dweight[k]);
      packed.store(partial + c);
    }
  } else {
    // Side by side where the rows lay, then a thread adds up a channel, the groups in order.
    __syncthreads();
    auto* const sums = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kThreadsPerRow + lane) * kWidth;
      if (c >= C) continue;
      Packed<float, kWidth> packed;
      packed.pack(dweight[k]);
      packed.store(sums + group * C + c);
    }
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < C; c += kBlockSize<kThreadsPerRow>) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kGroups; ++i) sum += sums[i * C + c];
      partial[c] = sum;
    }
  }
}
static_assert(kStages == 2, "a stage's parity turns after every second row");

constexpr std::int64_t kMaxVectors = 512 * 2;  // Of a row, in the largest configuration below.

}  // namespace

bool fits_row_in_shared(const RmsNormBackwardArgs& args) {
  return args.dy_type == ElementType::kBfloat16 && args.stream_type == ElementType::kBfloat16 &&
         args.dx == nullptr && args.C % kWidth == 0 && args.C / kWidth <= kMaxVectors &&
         is_aligned(args.dy) && is_aligned(args.r) && is_aligned(args.weight) &&
         is_aligned(args.dr_in) && is_aligned(args.dr);
}

void launch_row_in_shared(const RmsNormBackwardArgs& args, cudaStream_t stream) {
  check(args);
  check_argument(fits_row_in_shared(args), "rms_norm_backward", "C", args.C,
                 "row_in_shared takes bfloat16 of 16-byte alignment and a multiple of 8 channels, "
                 "to 8192");
  const std::int64_t num_vectors = args.C / kWidth;
  int num_blocks = 0;
  const auto launch = [&]<int kThreadsPerRow, int kVectors>() {
    constexpr int kNumThreads = kBlockSize<kThreadsPerRow>;
    const auto num_bytes =
        static_cast<int>(kNumThreads / kThreadsPerRow * kStages * 3 * args.C * 2);
    const auto kernel = &rms_norm_backward_row_in_shared<kThreadsPerRow, kVectors>;
    SL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, num_bytes));
    num_blocks = static_cast<int>(std::clamp<std::int64_t>(
        args.N, 1, num_multiprocessors() * (kThreadsPerMultiprocessor / kNumThreads)));
    kernel<<<static_cast<unsigned>(num_blocks), kNumThreads, static_cast<std::size_t>(num_bytes),
             stream>>>(args);
  };
  // 147 KB of shared memory at 96 vectors, 98 KB at 1024: a multiprocessor of an H200 has 227.
  if (num_vectors <= 32) {
    launch.template operator()<32, 1>();
  } else if (num_vectors <= 96) {
    launch.template operator()<32, 3>();
  } else if (num_vectors <= 256) {
    launch.template operator()<128, 2>();
  } else if (num_vectors <= 512) {
    launch.template operator()<256, 2>();
  } else {
    launch.template operator()<512, 2>();
  }
  SL_CUDA(cudaGetLastError());
  launch_sum_partials(args, num_blocks, stream);
}

}  // namespace steplens::rms_norm_backward_detail
