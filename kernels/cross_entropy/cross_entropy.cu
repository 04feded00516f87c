#include "kernels/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/bulk_copy.cuh"
#include "kernels/cuda_check.h"
#include "kernels/device.h"

namespace steplens {
namespace {

// N: rows, V: columns of a row. Exponentials are powers of two of x log2(e): one multiply-add and
// one ex2 instruction each, of which a multiprocessor finishes 16 a clock. They, not the memory,
// are what a row's arithmetic waits for.
//
// What a row's exponentials are relative to is the largest of its x log2(e) as fp32 rounds it: m.
// That product is wrong by half a unit, 6e-5 for x = 1000, but the same m stands in each power of
// the row, fused with an unrounded x log2(e), and in what takes m away again: nothing of it is left
// in a loss or a probability. No other expression may stand for m.

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr int kWarp = 32;

__device__ float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// 16 bytes of a row as fp32.
template <typename T>
struct Vector;
template <>
struct Vector<float> {
  static constexpr int kSize = 4;
  __device__ static void unpack(const uint4& bits, float (&x)[4]) {
    x[0] = __uint_as_float(bits.x);
    x[1] = __uint_as_float(bits.y);
    x[2] = __uint_as_float(bits.z);
    x[3] = __uint_as_float(bits.w);
  }
  __device__ static uint4 pack(const float (&x)[4]) {
    return {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
            __float_as_uint(x[3])};
  }
};
template <>
struct Vector<__nv_bfloat16> {
  static constexpr int kSize = 8;
  __device__ static void unpack(const uint4& bits, float (&x)[8]) {
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = __uint_as_float(words[i] << 16);
      x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }
  __device__ static uint4 pack(const float (&x)[8]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
      words[i] = reinterpret_cast<const unsigned&>(pair);
    }
    return {words[0], words[1], words[2], words[3]};
  }
};

__device__ float to_float(float x) { return x; }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void store(float* to, float x) { *to = x; }
__device__ void store(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }

// m of the elements so far and the sum of 2^(x log2 e - m) over them.
struct Softmax {
  float m = -INFINITY;
  float sum = 0;

  template <int kSize>
  __device__ void add(const float (&x)[kSize]) {
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < kSize; ++i) largest = fmaxf(largest, x[i]);
    // Rounded by itself: a compiler that fuses it with what follows makes another m.
    const float new_m = fmaxf(m, __fmul_rn(largest, kLog2E));
    const float offset = new_m == -INFINITY ? 0 : -new_m;
    float added = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) added += exp2_fast(fmaf(x[i], kLog2E, offset));
    sum = fmaf(sum, exp2_fast(m + offset), added);
    m = new_m;
  }
  __device__ void merge(float other_m, float other_sum) {
    const float new_m = fmaxf(m, other_m);
    const float offset = new_m == -INFINITY ? 0 : -new_m;
    sum = sum * exp2_fast(m + offset) + other_sum * exp2_fast(other_m + offset);
    m = new_m;
  }
};

// The softmax of a whole block's row, in every thread. `shared`: one entry a warp; ends with all
// threads past their last read of it only at the next barrier.
__device__ Softmax merge_over_block(Softmax part, float2* shared) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    part.merge(__shfl_xor_sync(0xffffffffu, part.m, offset),
               __shfl_xor_sync(0xffffffffu, part.sum, offset));
  }
  const int num_warps = static_cast<int>(blockDim.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) shared[threadIdx.x / kWarp] = {part.m, part.sum};
  __syncthreads();
  const float2 mine = lane < num_warps ? shared[lane] : float2{-INFINITY, 0};
  Softmax all{mine.x, mine.y};
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    all.merge(__shfl_xor_sync(0xffffffffu, all.m, offset),
              __shfl_xor_sync(0xffffffffu, all.sum, offset));
  }
  return all;
}

// What a row's gradient needs: g = scale * (2^(x log2 e - m) / sum - [v = target]).
struct RowGradient {
  float m, scale_over_sum, scale;
  __device__ float of(float x) const { return scale_over_sum * exp2_fast(fmaf(x, kLog2E, -m)); }
};

__device__ RowGradient row_gradient(const Softmax& softmax, float scale) {
  return {.m = softmax.m, .scale_over_sum = scale / softmax.sum, .scale = scale};
}

__device__ float loss_of(const Softmax& softmax, float target_logit) {
  return kLn2 * (log2f(softmax.sum) - fmaf(target_logit, kLog2E, -softmax.m));
}

// ---- two_pass: a block a row reads it twice, the second time mostly from L2, and writes it. ----

constexpr int kTwoPassThreads = 512;

template <typename T>
__global__ void __launch_bounds__(kTwoPassThreads)
    cross_entropy_two_pass_kernel(const CrossEntropyArgs args) {
  constexpr int kSize = Vector<T>::kSize;
  __shared__ float2 shared[kTwoPassThreads / kWarp];
  const auto columns = static_cast<int>(args.V);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row_index = blockIdx.x;
  T* const row = static_cast<T*>(args.logits) + row_index * args.V;
  // Columns before the first that lies on 16 bytes.
  const auto misalignment = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16);
  const int head =
      min(columns, misalignment == 0 ? 0 : (16 - misalignment) / static_cast<int>(sizeof(T)));
  const int num_vectors = (columns - head) / kSize;
  const int tail = head + num_vectors * kSize;
  auto* const vectors = reinterpret_cast<uint4*>(row + head);

  const std::int64_t target = args.targets[row_index];
  const bool is_ignored = target == args.ignore_index;
  if (is_ignored) {
    for (int v = thread; v < columns; v += kTwoPassThreads) store(row + v, 0.0f);
    if (thread == 0) args.losses[row_index] = 0;
    return;
  }
  Softmax part;
  for (int v = thread; v < head; v += kTwoPassThreads) {
    const float x[1] = {to_float(row[v])};
    part.add(x);
  }
#pragma unroll 4
  for (int i = thread; i < num_vectors; i += kTwoPassThreads) {
    float x[kSize];
    Vector<T>::unpack(vectors[i], x);
    part.add(x);
  }
  for (int v = tail + thread; v < columns; v += kTwoPassThreads) {
    const float x[1] = {to_float(row[v])};
    part.add(x);
  }
  const bool has_target = target >= 0 && target < columns;
  // Before the barrier below: no thread has written yet.
  const float target_logit = has_target ? to_float(row[target]) : NAN;
  const Softmax softmax = merge_over_block(part, shared);
  if (thread == 0) args.losses[row_index] = loss_of(softmax, target_logit);
  const RowGradient gradient = row_gradient(softmax, args.scale);
  const auto write_one = [&](int v) {
    store(row + v, gradient.of(to_float(row[v])) - (v == target ? gradient.scale : 0.0f));
  };
  for (int v = thread; v < head; v += kTwoPassThreads) write_one(v);
#pragma unroll 4
  for (int i = thread; i < num_vectors; i += kTwoPassThreads) {
    float x[kSize];
    Vector<T>::unpack(vectors[i], x);
    const auto in_vector = static_cast<int>(target) - head - i * kSize;
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      x[k] = gradient.of(x[k]) - (k == in_vector ? gradient.scale : 0.0f);
    }
    vectors[i] = Vector<T>::pack(x);
  }
  for (int v = tail + thread; v < columns; v += kTwoPassThreads) write_one(v);
}

void check(const CrossEntropyArgs& args) {
  check_argument(args.N >= 0 && args.N < (std::int64_t{1} << 31), "cross_entropy", "N", args.N,
                 "0 to 2^31 - 1 rows");
  check_argument(args.V >= 1 && args.V < (std::int64_t{1} << 31), "cross_entropy", "V", args.V,
                 "1 to 2^31 - 1 columns");
}

void launch_two_pass(const CrossEntropyArgs& args, cudaStream_t stream) {
  check(args);
  if (args.N == 0) return;
  const auto num_blocks = static_cast<unsigned>(args.N);
  if (args.type == ElementType::kFloat32) {
    cross_entropy_two_pass_kernel<float><<<num_blocks, kTwoPassThreads, 0, stream>>>(args);
  } else {
    cross_entropy_two_pass_kernel<__nv_bfloat16><<<num_blocks, kTwoPassThreads, 0, stream>>>(args);
  }
  SL_CUDA(cudaGetLastError());
}

// ---- row_in_shared: a block a multiprocessor walks over rows. The copy engine brings the next row
// into shared memory while this one is computed from there, so memory is read once. Rows of 50,304
// in bf16 then move at 94 % of a device copy's rate on an H200, where two_pass reaches 68 %. ----

constexpr int kRowThreads = 1024;
constexpr int kNumStages = 2;
// Two rows, two barriers and the reduction must fit what a block may have on an H200: 227 KiB.
constexpr std::int64_t kMaxSharedBytes = 232'448;
constexpr std::int64_t kOtherSharedBytes = 1024;

__device__ void load_row(void* to, const void* from, unsigned num_bytes, std::uint64_t* barrier) {
  expect_bytes(barrier, num_bytes);
  copy_to_shared(to, from, num_bytes, barrier);
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads, 1)
    cross_entropy_row_in_shared_kernel(const CrossEntropyArgs args) {
  constexpr int kSize = Vector<T>::kSize;
  extern __shared__ __align__(128) unsigned char rows[];
  __shared__ std::uint64_t barriers[kNumStages];
  __shared__ float2 shared[kRowThreads / kWarp];
  const auto columns = static_cast<int>(args.V);
  const int thread = static_cast<int>(threadIdx.x);
  const int num_vectors = columns / kSize;
  const auto row_bytes = static_cast<unsigned>(columns * static_cast<int>(sizeof(T)));
  T* const logits = static_cast<T*>(args.logits);
  const auto first = static_cast<std::int64_t>(blockIdx.x);
  const auto stride = static_cast<std::int64_t>(gridDim.x);

  if (thread == 0) {
    for (std::uint64_t& barrier : barriers) init_barrier(&barrier);
    publish_barriers();
    load_row(rows, logits + first * args.V, row_bytes, &barriers[0]);
  }
  __syncthreads();

  int stage = 0;
  unsigned parity = 0;
  for (std::int64_t n = first; n < args.N; n += stride) {
    // All threads passed the barrier that ended the row which lay in the other stage.
    if (thread == 0 && n + stride < args.N) {
      load_row(rows + (1 - stage) * row_bytes, logits + (n + stride) * args.V, row_bytes,
               &barriers[1 - stage]);
    }
    const std::int64_t target = args.targets[n];
    wait_barrier(&barriers[stage], parity);
    const auto* const values = reinterpret_cast<const T*>(rows + stage * row_bytes);
    const auto* const vectors = reinterpret_cast<const uint4*>(values);
    auto* const out = reinterpret_cast<uint4*>(logits + n * args.V);
    if (target == args.ignore_index) {
      for (int i = thread; i < num_vectors; i += kRowThreads) __stcs(out + i, uint4{});
      if (thread == 0) args.losses[n] = 0;
    } else {
      Softmax part;
      for (int i = thread; i < num_vectors; i += kRowThreads) {
        float x[kSize];
        Vector<T>::unpack(vectors[i], x);
        part.add(x);
      }
      const Softmax softmax = merge_over_block(part, shared);
      if (thread == 0) {
        const bool has_target = target >= 0 && target < columns;
        args.losses[n] = loss_of(softmax, has_target ? to_float(values[target]) : NAN);
      }
      const RowGradient gradient = row_gradient(softmax, args.scale);
      const auto target_vector = static_cast<int>(target / kSize);
      const auto in_vector = static_cast<int>(target % kSize);
      for (int i = thread; i < num_vectors; i += kRowThreads) {
        float x[kSize];
        Vector<T>::unpack(vectors[i], x);
#pragma unroll
        for (int k = 0; k < kSize; ++k) x[k] = gradient.of(x[k]);
        if (i == target_vector) {
#pragma unroll
          for (int k = 0; k < kSize; ++k) {
            if (k == in_vector) x[k] -= gradient.scale;
          }
        }
        out[i] = Vector<T>::pack(x);
      }
    }
    __syncthreads();  // Before this stage and the reduction's memory are written again.
    parity ^= static_cast<unsigned>(stage);
    stage = 1 - stage;
  }
}

bool fits_row_in_shared(const CrossEntropyArgs& args) {
  const std::int64_t row_bytes = args.V * element_bytes(args.type);
  return row_bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(args.logits) % 16 == 0 &&
         kNumStages * row_bytes + kOtherSharedBytes <= kMaxSharedBytes;
}

template <typename T>
void launch_row_in_shared_of(const CrossEntropyArgs& args, unsigned num_blocks,
                             cudaStream_t stream) {
  const auto num_bytes =
      static_cast<int>(kNumStages * args.V * static_cast<std::int64_t>(sizeof(T)));
  SL_CUDA(cudaFuncSetAttribute(cross_entropy_row_in_shared_kernel<T>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, num_bytes));
  cross_entropy_row_in_shared_kernel<T>
      <<<num_blocks, kRowThreads, static_cast<std::size_t>(num_bytes), stream>>>(args);
  SL_CUDA(cudaGetLastError());
}

void launch_row_in_shared(const CrossEntropyArgs& args, cudaStream_t stream) {
  check(args);
  check_argument(fits_row_in_shared(args), "cross_entropy", "V", args.V,
                 "row_in_shared takes rows of a multiple of 16 bytes, two of which fit 226 KiB");
  if (args.N == 0) return;
  const auto num_blocks =
      static_cast<unsigned>(std::min<std::int64_t>(args.N, num_multiprocessors()));
  if (args.type == ElementType::kFloat32) {
    launch_row_in_shared_of<float>(args, num_blocks, stream);
  } else {
    launch_row_in_shared_of<__nv_bfloat16>(args, num_blocks, stream);
  }
}

constexpr CrossEntropyVariant kVariants[] = {
    {"two_pass", "a block a row, the largest logit and the sum found in one pass",
     [](const CrossEntropyArgs&) { return true; }, &launch_two_pass},
    {"row_in_shared", "rows wait in shared memory: read once, the next loads meanwhile",
     &fits_row_in_shared, &launch_row_in_shared},
};

}  // namespace

std::span<const CrossEntropyVariant> cross_entropy_variants() { return kVariants; }

void cross_entropy(const CrossEntropyArgs& args, cudaStream_t stream) {
  const CrossEntropyVariant* best = &kVariants[0];
  for (const CrossEntropyVariant& variant : kVariants) {
    if (variant.is_applicable(args)) best = &variant;
  }
  best->launch(args, stream);
}

}  // namespace steplens
