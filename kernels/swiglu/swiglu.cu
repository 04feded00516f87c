// SwiGLU. Memory bound: forward moves 3, backward 5 elements for each of N x F.
//
// N: rows, F: width of the MLP, n: a row, c: a channel.

#include "kernels/swiglu/swiglu.h"

#include <limits>

#include "kernels/cuda_check.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace {

constexpr int kBlockSize = 256;

struct Silu {
  float value;
  float derivative;
};

__device__ Silu silu(float z) {
  const float s = __fdividef(1.0f, 1.0f + __expf(-z));
  return {.value = z * s, .derivative = s * (1.0f + z * (1.0f - s))};
}

// Where the accesses of thread `index` lie: of y and dy, of the gate; the up is F further.
struct Place {
  std::int64_t row_offset;
  std::int64_t gate_offset;
};

template <int kWidth, typename Index>
__device__ Place place_of(Index index, std::int64_t F) {
  const Index per_row = static_cast<Index>(F / kWidth);
  const Index n = index / per_row;
  const std::int64_t c = static_cast<std::int64_t>(index - n * per_row) * kWidth;
  return {.row_offset = static_cast<std::int64_t>(n) * F + c,
          .gate_offset = static_cast<std::int64_t>(n) * 2 * F + c};
}

template <typename T, int kWidth, typename Index>
__global__ void __launch_bounds__(kBlockSize)
    swiglu_forward_kernel(const SwigluForwardArgs args, Index num_accesses) {
  const Index index = static_cast<Index>(blockIdx.x) * kBlockSize + threadIdx.x;
  if (index >= num_accesses) return;
  const Place place = place_of<kWidth>(index, args.F);
  const T* gate_up = static_cast<const T*>(args.gate_up) + place.gate_offset;
  Packed<T, kWidth> packed_gate;
  Packed<T, kWidth> packed_up;
  packed_gate.load(gate_up);
  packed_up.load(gate_up + args.F);
  float gate[kWidth];
  float up[kWidth];
  packed_gate.unpack(gate);
  packed_up.unpack(up);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) up[i] *= silu(gate[i]).value;
  packed_up.pack(up);
  packed_up.store(static_cast<T*>(args.y) + place.row_offset);
}

template <typename T, int kWidth, typename Index>
__global__ void __launch_bounds__(kBlockSize)
    swiglu_backward_kernel(const SwigluBackwardArgs args, Index num_accesses) {
  const Index index = static_cast<Index>(blockIdx.x) * kBlockSize + threadIdx.x;
  if (index >= num_accesses) return;
  const Place place = place_of<kWidth>(index, args.F);
  const T* gate_up = static_cast<const T*>(args.gate_up) + place.gate_offset;
  Packed<T, kWidth> packed_dy;
  Packed<T, kWidth> packed_gate;
  Packed<T, kWidth> packed_up;
  packed_dy.load(static_cast<const T*>(args.dy) + place.row_offset);
  packed_gate.load(gate_up);
  packed_up.load(gate_up + args.F);
  float dy[kWidth];
  float gate[kWidth];
  float up[kWidth];
  packed_dy.unpack(dy);
  packed_gate.unpack(gate);
  packed_up.unpack(up);
  float y[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const Silu activated = silu(gate[i]);
    y[i] = activated.value * up[i];
    gate[i] = dy[i] * up[i] * activated.derivative;
    up[i] = dy[i] * activated.value;
  }
  T* dgate_up = static_cast<T*>(args.dgate_up) + place.gate_offset;
  packed_gate.pack(gate);
  packed_gate.store(dgate_up);
  packed_up.pack(up);
  packed_up.store(dgate_up + args.F);
  if (args.y != nullptr) {
    packed_dy.pack(y);
    packed_dy.store(static_cast<T*>(args.y) + place.row_offset);
  }
}

// `launch.operator()<T, kWidth, Index>(num_blocks, num_accesses)`, by type, alignment and size.
template <typename Args, typename Launch>
void dispatch(std::string_view op, const Args& args, bool has_aligned_pointers, Launch&& launch) {
  check_argument(args.N >= 0, op, "N", args.N, "0 and more");
  check_argument(args.F >= 1, op, "F", args.F, "1 and more");
  if (args.N == 0) return;
  const auto with_width = [&]<typename T, int kWidth>() {
    const std::int64_t num_accesses = args.N * (args.F / kWidth);
    const std::int64_t num_blocks = (num_accesses + kBlockSize - 1) / kBlockSize;
    check_argument(num_blocks <= std::numeric_limits<int>::max(), op, "N * F", args.N * args.F,
                   "what 2147483647 blocks can cover");
    // Divisions of 64 bits cost several times as much.
    if (num_blocks * kBlockSize <= std::numeric_limits<std::uint32_t>::max()) {
      launch.template operator()<T, kWidth>(static_cast<unsigned>(num_blocks),
                                            static_cast<std::uint32_t>(num_accesses));
    } else {
      launch.template operator()<T, kWidth>(static_cast<unsigned>(num_blocks),
                                            static_cast<std::uint64_t>(num_accesses));
    }
    SL_CUDA(cudaGetLastError());
  };
  const auto with_type = [&]<typename T>() {
    constexpr int kWidth = kVectorWidth<T>;
    if (has_aligned_pointers && args.F % kWidth == 0) {
      with_width.template operator()<T, kWidth>();
    } else {
      with_width.template operator()<T, 1>();
    }
  };
  if (args.type == ElementType::kFloat32) {
    with_type.template operator()<float>();
  } else {
    with_type.template operator()<Bfloat16>();
  }
}

}  // namespace

void swiglu_forward(const SwigluForwardArgs& args, cudaStream_t stream) {
  const auto launch = [&]<typename T, int kWidth, typename Index>(unsigned num_blocks,
                                                                  Index num_accesses) {
    swiglu_forward_kernel<T, kWidth><<<num_blocks, kBlockSize, 0, stream>>>(args, num_accesses);
  };
  dispatch("swiglu_forward", args, is_aligned(args.gate_up) && is_aligned(args.y), launch);
}

void swiglu_backward(const SwigluBackwardArgs& args, cudaStream_t stream) {
  const auto launch = [&]<typename T, int kWidth, typename Index>(unsigned num_blocks,
                                                                  Index num_accesses) {
    swiglu_backward_kernel<T, kWidth><<<num_blocks, kBlockSize, 0, stream>>>(args, num_accesses);
  };
  dispatch("swiglu_backward", args,
           is_aligned(args.dy) && is_aligned(args.gate_up) && is_aligned(args.dgate_up) &&
               is_aligned(args.y),
           launch);
}

}  // namespace steplens
