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

// ---- row_in_registers: as row_in_shared, but a row waits in shared memory only until the block's
// threads have taken it, all of it, to registers. There it becomes its exponentials, one ex2 an
// element, and then its gradient, while the copy engine brings a later row where it lay. bf16, up
// to 32,768 columns: on an H200 16,384 rows of 32,000 take 537 us, 584 by row_in_shared. With 13
// vectors a thread (104 of its 128 registers, none spilled) 32,768 rows of 50,304 took 1,685 us,
// 1,620 by row_in_shared (bench_fused_loss --benchmark_filter=cross). ----

// 16 bytes of a row, of which the block has one a thread times `kVectors`. Those before `kFull` are
// there in each row that this kernel is launched for, the others as far as the row reaches.
template <int kThreads, int kVectors, int kFull>
struct RowShape {
  static constexpr int kMaxVectors = kThreads * kVectors;
  // 64 registers hold 4 vectors as fp32, which leaves room for 1024 threads a multiprocessor.
  static constexpr int kBlocks = kVectors <= 4 ? 1024 / kThreads : 1;

  // do_vector(k, i, exists): for the thread's k-th vector, the i-th of the row if the row has it.
  template <typename DoVector>
  __device__ static void for_each(int num_vectors, DoVector do_vector) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * kThreads;
      do_vector(k, i, k < kFull || i < num_vectors);
    }
  }
};

constexpr int kMaxRowStages = 4;
// A multiprocessor's shared memory, and what a block takes of it beside its rows: 1 KiB for the
// system, the barriers and the reductions.
constexpr std::int64_t kSharedBytesOfAll = 233'472;
constexpr std::int64_t kSharedBytesBesideRows = 2048;
constexpr std::int64_t kMaxVectorsInRegisters = 512 * 8;

// Integers in the order of the floats, for a warp's maximum in one instruction; its own inverse.
__device__ int in_float_order(int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

constexpr unsigned kMinusInfinities = 0xff80ff80u;  // Two in bf16.

__device__ __nv_bfloat162 bfloat16_pair(unsigned word) {
  return reinterpret_cast<const __nv_bfloat162&>(word);
}

// No NaN is larger than a number here: it shows in the sum.
__device__ __nv_bfloat162 largest_pair(const uint4& bits) {
  return __hmax2(__hmax2(bfloat16_pair(bits.x), bfloat16_pair(bits.y)),
                 __hmax2(bfloat16_pair(bits.z), bfloat16_pair(bits.w)));
}

template <int kThreads, int kVectors, int kFull>
__global__ void __launch_bounds__(kThreads, RowShape<kThreads, kVectors, kFull>::kBlocks)
    cross_entropy_row_in_registers_kernel(const CrossEntropyArgs args, int num_stages) {
  using T = __nv_bfloat16;
  using Shape = RowShape<kThreads, kVectors, kFull>;
  constexpr int kSize = Vector<T>::kSize;
  constexpr int kWarps = kThreads / kWarp;
  extern __shared__ __align__(128) unsigned char rows[];
  __shared__ std::uint64_t barriers[kMaxRowStages];
  __shared__ int warp_largest[kWarps];
  __shared__ float4 warp_sums[kWarps / 4];
  const auto columns = static_cast<int>(args.V);
  const int thread = static_cast<int>(threadIdx.x);
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = threadIdx.x / kWarp;
  const int num_vectors = columns / kSize;
  const auto row_bytes = static_cast<unsigned>(columns * static_cast<int>(sizeof(T)));
  T* const logits = static_cast<T*>(args.logits);
  const auto first = static_cast<std::int64_t>(blockIdx.x);
  const auto stride = static_cast<std::int64_t>(gridDim.x);

  if (thread == 0) {
    for (std::uint64_t& barrier : barriers) init_barrier(&barrier);
    publish_barriers();
    for (int i = 0; i < num_stages && first + i * stride < args.N; ++i) {
      load_row(rows + static_cast<unsigned>(i) * row_bytes, logits + (first + i * stride) * args.V,
               row_bytes, &barriers[i]);
    }
  }
  __syncthreads();

  int phase = 0;  // Of the stages in turn, first all with parity 0, then all with parity 1.
  std::int64_t next_target = args.targets[first];
  for (std::int64_t n = first; n < args.N; n += stride) {
    const bool is_ignored = next_target == args.ignore_index;
    const bool has_target = next_target >= 0 && next_target < columns;
    const int target = has_target ? static_cast<int>(next_target) : 0;
    const int stage = phase < num_stages ? phase : phase - num_stages;
    // The thread that holds the target's vector writes the row's loss.
    const bool owns_target = threadIdx.x == static_cast<unsigned>(target) / kSize % kThreads;
    unsigned char* const row = rows + static_cast<unsigned>(stage) * row_bytes;
    auto* const out = reinterpret_cast<uint4*>(logits + n * args.V);
    // Called by all threads when they have taken what they need of the row: its place is free.
    const auto free_stage = [&] {
      __syncthreads();
      if (thread == 0 && n + num_stages * stride < args.N) {
        load_row(row, logits + (n + num_stages * stride) * args.V, row_bytes, &barriers[stage]);
      }
      if (n + stride < args.N) next_target = args.targets[n + stride];
      if (++phase == 2 * num_stages) phase = 0;
    };

    // All threads wait, those of an ignored row too: none may lag a phase behind.
    wait_barrier(&barriers[stage], phase < num_stages ? 0 : 1);
    // A path of its own: registers that one path sets and another reads would stay taken on both.
    if (is_ignored) {
      free_stage();
      Shape::for_each(num_vectors, [&](int, int i, bool exists) {
        if (exists) out[i] = uint4{};
      });
      if (thread == 0) args.losses[n] = 0;
      continue;
    }
    uint4 bits[kVectors];
    __nv_bfloat162 pair = bfloat16_pair(kMinusInfinities);
    Shape::for_each(num_vectors, [&](int k, int i, bool exists) {
      bits[k] = uint4{kMinusInfinities, kMinusInfinities, kMinusInfinities, kMinusInfinities};
      if (exists) bits[k] = reinterpret_cast<const uint4*>(row)[i];
      pair = __hmax2(pair, largest_pair(bits[k]));
    });
    float target_logit = NAN;
    if (owns_target && has_target) target_logit = to_float(reinterpret_cast<const T*>(row)[target]);
    const float largest = fmaxf(__low2float(pair), __high2float(pair));
    const int in_warp = __reduce_max_sync(0xffffffffu, in_float_order(__float_as_int(largest)));
    if (lane == 0) warp_largest[warp] = in_warp;
    free_stage();

    const int in_block = __reduce_max_sync(0xffffffffu, warp_largest[lane % kWarps]);
    // As Softmax has it.
    const float m = __fmul_rn(__int_as_float(in_float_order(in_block)), kLog2E);
    const float offset = m == -INFINITY ? 0 : -m;
    float e[kVectors][kSize];
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {  // Those that the row lacks add 0.
      Vector<T>::unpack(bits[k], e[k]);
      float added = 0;
#pragma unroll
      for (float& x : e[k]) {
        x = exp2_fast(fmaf(x, kLog2E, offset));
        added += x;
      }
      sum += added;
    }
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (lane == 0) reinterpret_cast<float*>(warp_sums)[warp] = sum;
    __syncthreads();
    Softmax softmax{m, 0};
#pragma unroll
    for (const float4& four : warp_sums) {
      softmax.sum += (four.x + four.y) + (four.z + four.w);
    }

    const RowGradient gradient = row_gradient(softmax, args.scale);
    Shape::for_each(num_vectors, [&](int k, int i, bool exists) {
      if (!exists) return;
#pragma unroll
      for (float& x : e[k]) x *= gradient.scale_over_sum;
      out[i] = Vector<T>::pack(e[k]);
    });
    if (owns_target) {
      args.losses[n] = loss_of(softmax, target_logit);
      // Over what this thread has just written there.
      if (has_target) {
        store(logits + n * args.V + target, gradient.of(target_logit) - gradient.scale);
      }
    }
  }
}

bool fits_row_in_registers(const CrossEntropyArgs& args) {
  return args.type == ElementType::kBfloat16 && fits_row_in_shared(args) &&
         args.V <= kMaxVectorsInRegisters * Vector<__nv_bfloat16>::kSize;
}

template <int kThreads, int kVectors, int kFull>
void launch_row_in_registers_of(const CrossEntropyArgs& args, cudaStream_t stream) {
  constexpr auto kernel = &cross_entropy_row_in_registers_kernel<kThreads, kVectors, kFull>;
  constexpr int kBlocks = RowShape<kThreads, kVectors, kFull>::kBlocks;
  constexpr std::int64_t kRowBytes = 16 * RowShape<kThreads, kVectors, kFull>::kMaxVectors;
  constexpr std::int64_t kBytes = kSharedBytesOfAll / kBlocks - kSharedBytesBesideRows;
  static_assert(kBytes >= 2 * kRowBytes);
  const std::int64_t row_bytes = args.V * 2;
  const std::int64_t num_stages = std::min<std::int64_t>(kMaxRowStages, kBytes / row_bytes);
  const auto num_bytes = static_cast<int>(num_stages * row_bytes);
  const auto num_blocks = static_cast<unsigned>(
      std::min<std::int64_t>(args.N, std::int64_t{kBlocks} * num_multiprocessors()));
  SL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, num_bytes));
  kernel<<<num_blocks, kThreads, static_cast<std::size_t>(num_bytes), stream>>>(
      args, static_cast<int>(num_stages));
  SL_CUDA(cudaGetLastError());
}

void launch_row_in_registers(const CrossEntropyArgs& args, cudaStream_t stream) {
  check(args);
  check_argument(fits_row_in_registers(args), "cross_entropy", "V", args.V,
                 "row_in_registers takes bf16 rows of a multiple of 16 bytes, at most 64 KiB");
  if (args.N == 0) return;
  const std::int64_t num_vectors = args.V / Vector<__nv_bfloat16>::kSize;
  // A row has more vectors than the shape before takes: so many are there for each thread.
  if (num_vectors <= 128 * 4) return launch_row_in_registers_of<128, 4, 0>(args, stream);
  if (num_vectors <= 512 * 4) return launch_row_in_registers_of<512, 4, 1>(args, stream);
  launch_row_in_registers_of<512, 8, 4>(args, stream);
}

constexpr CrossEntropyVariant kVariants[] = {
    {"two_pass", "a block a row, the largest logit and the sum found in one pass",
     [](const CrossEntropyArgs&) { return true; }, &launch_two_pass},
    {"row_in_shared", "rows wait in shared memory: read once, the next loads meanwhile",
     &fits_row_in_shared, &launch_row_in_shared},
    {"row_in_registers", "one exponential an element, kept in registers from sum to gradient",
     &fits_row_in_registers, &launch_row_in_registers},
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
