#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/vector.h"

namespace steplens {

using Bfloat16 = __nv_bfloat16;

inline constexpr int kWarpSize = 32;
inline constexpr int kAccessBytes = 16;  // The widest load or store of one thread.

template <typename T>
inline constexpr ElementType kElementType =
    sizeof(T) == 4 ? ElementType::kFloat32 : ElementType::kBfloat16;

/// Elements that make one 16-byte access of the narrowest of Ts.
template <typename... Ts>
inline constexpr int kVectorWidth = ((sizeof(Ts) == 2) || ...) ? 8 : 4;

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kAccessBytes == 0;
}

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(Bfloat16 value) { return __bfloat162float(value); }
template <typename T>
__device__ inline T from_float(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    return __float2bfloat16_rn(value);
  }
}

/// kWidth elements of T as they lie in memory: few registers until they are unpacked. Pointers are
/// 16-byte aligned. Plain accesses: on an H200 the kernels were slower with evict-first loads
/// (__ldcs) beside plain stores, and no faster with evict-first stores too.
template <typename T, int kWidth>
struct Packed {
  static constexpr int kNumAccesses = kWidth * static_cast<int>(sizeof(T)) / kAccessBytes;
  static_assert(kNumAccesses >= 1);
  uint4 accesses[kNumAccesses];

  __device__ void load(const T* data) {
#pragma unroll
    for (int i = 0; i < kNumAccesses; ++i) {
      accesses[i] = reinterpret_cast<const uint4*>(data)[i];
    }
  }
  __device__ void store(T* data) const {
#pragma unroll
    for (int i = 0; i < kNumAccesses; ++i) reinterpret_cast<uint4*>(data)[i] = accesses[i];
  }
  __device__ void unpack(float (&values)[kWidth]) const {
#pragma unroll
    for (int i = 0; i < kNumAccesses; ++i) {
      const unsigned words[4] = {accesses[i].x, accesses[i].y, accesses[i].z, accesses[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if constexpr (sizeof(T) == 4) {
          values[4 * i + j] = __uint_as_float(words[j]);
        } else {
          values[8 * i + 2 * j] = __uint_as_float(words[j] << 16);
          values[8 * i + 2 * j + 1] = __uint_as_float(words[j] & 0xffff0000u);
        }
      }
    }
  }
  __device__ void pack(const float (&values)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kNumAccesses; ++i) {
      unsigned words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if constexpr (sizeof(T) == 4) {
          words[j] = __float_as_uint(values[4 * i + j]);
        } else {
          const __nv_bfloat162 pair =
              __floats2bfloat162_rn(values[8 * i + 2 * j], values[8 * i + 2 * j + 1]);
          words[j] = *reinterpret_cast<const unsigned*>(&pair);
        }
      }
      accesses[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
};

/// One element, of any alignment.
template <typename T>
struct Packed<T, 1> {
  static constexpr int kNumAccesses = 1;
  T element;
  __device__ void load(const T* data) { element = *data; }
  __device__ void store(T* data) const { *data = element; }
  __device__ void unpack(float (&values)[1]) const { values[0] = to_float(element); }
  __device__ void pack(const float (&values)[1]) { element = from_float<T>(values[0]); }
};

/// Read-only values that many blocks share, such as a norm's weight: kept in the caches.
template <int kWidth>
__device__ inline void load_shared_values(const void* data, bool is_bfloat16, std::int64_t index,
                                          float (&values)[kWidth]) {
  if (is_bfloat16) {
    if constexpr (kWidth == 8) {
      Packed<Bfloat16, 8> packed;
      packed.accesses[0] =
          __ldg(reinterpret_cast<const uint4*>(static_cast<const Bfloat16*>(data) + index));
      packed.unpack(values);
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        values[i] = to_float(static_cast<const Bfloat16*>(data)[index + i]);
      }
    }
  } else {
    const auto* source = reinterpret_cast<const float4*>(static_cast<const float*>(data) + index);
#pragma unroll
    for (int i = 0; i < kWidth / 4; ++i) {
      const float4 four = __ldg(source + i);
      values[4 * i] = four.x;
      values[4 * i + 1] = four.y;
      values[4 * i + 2] = four.z;
      values[4 * i + 3] = four.w;
    }
  }
}

__device__ inline float load_shared_value(const void* data, bool is_bfloat16, std::int64_t index) {
  return is_bfloat16 ? to_float(static_cast<const Bfloat16*>(data)[index])
                     : static_cast<const float*>(data)[index];
}

/// Sum over the warp, the same in all lanes and in every run.
template <typename T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

/// Sum over a warp (kNumThreads = 32), or over a block of kNumThreads threads; the same in all of
/// them. `slots`: two rows of kNumThreads / 32 floats in shared memory; consecutive calls alternate
/// `parity`, so that one barrier each is enough.
template <int kNumThreads>
__device__ inline float group_sum(float value, float* slots, int parity) {
  value = warp_sum(value);
  if constexpr (kNumThreads > kWarpSize) {
    constexpr int kNumWarps = kNumThreads / kWarpSize;
    float* row = slots + parity * kNumWarps;
    if (threadIdx.x % kWarpSize == 0) row[threadIdx.x / kWarpSize] = value;
    __syncthreads();
    value = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kNumWarps; ++warp) value += row[warp];
  }
  return value;
}

}  // namespace steplens
