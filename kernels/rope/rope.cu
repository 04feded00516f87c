// Rotary embedding of a fused projection, forward and backward: one kernel that reads each head
// once and writes it once. Memory bound.
//
// Slots are the heads of one token: H of q, then Hkv of k, then Hkv of v. A thread holds the same
// few channels of kSlotsPerThread slots, whose angles it reads once.

#include "kernels/rope/rope.h"

#include <limits>
#include <string_view>

#include "kernels/cuda_check.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace {

constexpr int kBlockSize = 256;
// More share a thread's angles but keep fewer threads busy: on an H200 2 and 4 were slower.
constexpr int kSlotsPerThread = 1;

struct Part {
  ConstHeadsView in;
  HeadsView out;
};

struct KernelArgs {
  Part parts[3];  // q, k, v.
  const float* cos;
  const float* sin;
  std::int64_t table_stride;
  float sign;  // 1: rotate, -1: rotate back.
  int T;
  int H;
  int Hkv;
  int half;       // D / 2.
  int num_slots;  // H + Hkv where v stays, else H + 2 Hkv.
  int num_groups;
};

template <typename T, int kWidth, typename Index>
__global__ void __launch_bounds__(kBlockSize)
    rope_qkv_kernel(const __grid_constant__ KernelArgs args, Index num_threads) {
  const Index index = static_cast<Index>(blockIdx.x) * kBlockSize + threadIdx.x;
  if (index >= num_threads) return;
  // A thread is (token, group of slots, channels); channels run fastest.
  const Index num_vectors = static_cast<Index>(args.half / kWidth);
  const Index row = index / num_vectors;
  const int c = static_cast<int>(index - row * num_vectors) * kWidth;
  const Index token = row / static_cast<Index>(args.num_groups);
  const int group = static_cast<int>(row - token * static_cast<Index>(args.num_groups));
  const Index b = token / static_cast<Index>(args.T);
  const int t = static_cast<int>(token - b * static_cast<Index>(args.T));

  Packed<T, kWidth> first[kSlotsPerThread];
  Packed<T, kWidth> second[kSlotsPerThread];
#pragma unroll
  for (int i = 0; i < kSlotsPerThread; ++i) {
    const int slot = group + i * args.num_groups;
    if (slot >= args.num_slots) continue;
    const int part = (slot >= args.H) + (slot >= args.H + args.Hkv);
    const int head = slot - (part > 0 ? args.H : 0) - (part > 1 ? args.Hkv : 0);
    const ConstHeadsView& in = args.parts[part].in;
    const T* data = static_cast<const T*>(in.data) +
                    static_cast<std::int64_t>(b) * in.batch_stride + t * in.token_stride +
                    head * in.head_stride;
    if constexpr (kWidth == 1) {
      first[i].load(data + c * in.channel_stride);
      second[i].load(data + (c + args.half) * in.channel_stride);
    } else {
      first[i].load(data + c);
      second[i].load(data + c + args.half);
    }
  }

  float cosine[kWidth];
  float sine[kWidth];
  const std::int64_t place = t * args.table_stride + c;
  if constexpr (kWidth == 1) {
    cosine[0] = args.cos[place];
    sine[0] = args.sin[place];
  } else {
    load_shared_values<kWidth>(args.cos, /*is_bfloat16=*/false, place, cosine);
    load_shared_values<kWidth>(args.sin, /*is_bfloat16=*/false, place, sine);
  }
#pragma unroll
  for (int j = 0; j < kWidth; ++j) sine[j] *= args.sign;

#pragma unroll
  for (int i = 0; i < kSlotsPerThread; ++i) {
    const int slot = group + i * args.num_groups;
    if (slot >= args.num_slots) continue;
    const int part = (slot >= args.H) + (slot >= args.H + args.Hkv);
    const int head = slot - (part > 0 ? args.H : 0) - (part > 1 ? args.Hkv : 0);
    if (part < 2) {
      float x[kWidth];
      float y[kWidth];
      first[i].unpack(x);
      second[i].unpack(y);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const float rotated = x[j] * cosine[j] - y[j] * sine[j];
        y[j] = y[j] * cosine[j] + x[j] * sine[j];
        x[j] = rotated;
      }
      first[i].pack(x);
      second[i].pack(y);
    }
    const HeadsView& out = args.parts[part].out;
    T* data = static_cast<T*>(out.data) + static_cast<std::int64_t>(b) * out.batch_stride +
              t * out.token_stride + head * out.head_stride;
    if constexpr (kWidth == 1) {
      first[i].store(data + c * out.channel_stride);
      second[i].store(data + (c + args.half) * out.channel_stride);
    } else {
      first[i].store(data + c);
      second[i].store(data + c + args.half);
    }
  }
}

template <typename Void>
bool is_vectorizable(const HeadsOf<Void>& view, int width) {
  return is_aligned(view.data) && view.batch_stride % width == 0 &&
         view.token_stride % width == 0 && view.head_stride % width == 0 &&
         view.channel_stride == 1;
}

void check(const RopeShape& shape, std::string_view op) {
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  check_argument(shape.B >= 0, op, "B", shape.B, "0 and more");
  check_argument(shape.T >= 0 && shape.T <= kMax, op, "T", shape.T, "0 to 2147483647");
  check_argument(shape.H >= 1 && shape.H <= 1 << 20, op, "H", shape.H, "1 to 1048576");
  check_argument(shape.Hkv >= 1 && shape.Hkv <= 1 << 20, op, "Hkv", shape.Hkv, "1 to 1048576");
  check_argument(shape.D >= 2 && shape.D % 2 == 0 && shape.D <= kMax, op, "D", shape.D,
                 "an even number, 2 and more");
  check_argument(shape.table_stride >= shape.D / 2, op, "table_stride", shape.table_stride,
                 "D / 2 and more");
}

void launch(const RopeShape& shape, const Part (&parts)[3], bool copies_v, float sign,
            std::string_view op, cudaStream_t stream) {
  check(shape, op);
  if (shape.B == 0 || shape.T == 0) return;
  const auto num_slots = static_cast<int>(shape.H + (copies_v ? 2 : 1) * shape.Hkv);
  const KernelArgs args{
      .parts = {parts[0], parts[1], parts[2]},
      .cos = shape.cos,
      .sin = shape.sin,
      .table_stride = shape.table_stride,
      .sign = sign,
      .T = static_cast<int>(shape.T),
      .H = static_cast<int>(shape.H),
      .Hkv = static_cast<int>(shape.Hkv),
      .half = static_cast<int>(shape.D / 2),
      .num_slots = num_slots,
      .num_groups = (num_slots + kSlotsPerThread - 1) / kSlotsPerThread,
  };
  const auto with_width = [&]<typename T, int kWidth>() {
    const std::int64_t num_threads = shape.B * shape.T * args.num_groups * (args.half / kWidth);
    const std::int64_t num_blocks = (num_threads + kBlockSize - 1) / kBlockSize;
    check_argument(num_blocks <= std::numeric_limits<int>::max(), op, "B * T", shape.B * shape.T,
                   "what 2147483647 blocks can cover");
    if (num_blocks * kBlockSize <= std::numeric_limits<std::uint32_t>::max()) {
      rope_qkv_kernel<T, kWidth, std::uint32_t>
          <<<static_cast<unsigned>(num_blocks), kBlockSize, 0, stream>>>(
              args, static_cast<std::uint32_t>(num_threads));
    } else {
      rope_qkv_kernel<T, kWidth, std::uint64_t>
          <<<static_cast<unsigned>(num_blocks), kBlockSize, 0, stream>>>(
              args, static_cast<std::uint64_t>(num_threads));
    }
    SL_CUDA(cudaGetLastError());
  };
  const auto with_type = [&]<typename T>() {
    constexpr int kWidth = kVectorWidth<T>;
    bool is_wide = args.half % kWidth == 0 && is_aligned(args.cos) && is_aligned(args.sin) &&
                   args.table_stride % 4 == 0;
    for (int i = 0; i < (copies_v ? 3 : 2); ++i) {
      is_wide =
          is_wide && is_vectorizable(parts[i].in, kWidth) && is_vectorizable(parts[i].out, kWidth);
    }
    if (is_wide) {
      with_width.template operator()<T, kWidth>();
    } else {
      with_width.template operator()<T, 1>();
    }
  };
  if (shape.type == ElementType::kFloat32) {
    with_type.template operator()<float>();
  } else {
    with_type.template operator()<Bfloat16>();
  }
}

bool is_same_place(const ConstHeadsView& left, const HeadsView& right) {
  return left.data == right.data && left.batch_stride == right.batch_stride &&
         left.token_stride == right.token_stride && left.head_stride == right.head_stride &&
         left.channel_stride == right.channel_stride;
}

std::int64_t moved_bytes(const RopeShape& shape, std::int64_t num_slots) {
  return 2 * shape.B * shape.T * num_slots * shape.D * element_bytes(shape.type) +
         shape.T * shape.D * 4;
}

}  // namespace

HeadsView qkv_heads(void* qkv, QkvPart part, const RopeShape& shape) {
  const std::int64_t row = (shape.H + 2 * shape.Hkv) * shape.D;
  const std::int64_t heads_before = part == QkvPart::kQ   ? 0
                                    : part == QkvPart::kK ? shape.H
                                                          : shape.H + shape.Hkv;
  return {.data = static_cast<char*>(qkv) + heads_before * shape.D * element_bytes(shape.type),
          .batch_stride = shape.T * row,
          .token_stride = row,
          .head_stride = shape.D};
}

ConstHeadsView qkv_heads(const void* qkv, QkvPart part, const RopeShape& shape) {
  const HeadsView view = qkv_heads(const_cast<void*>(qkv), part, shape);
  return {.data = view.data,
          .batch_stride = view.batch_stride,
          .token_stride = view.token_stride,
          .head_stride = view.head_stride};
}

std::int64_t minimum_bytes(const RopeQkvForwardArgs& args) {
  const RopeShape& shape = args.shape;
  return moved_bytes(shape, shape.H + (args.v.data != nullptr ? 2 : 1) * shape.Hkv);
}

std::int64_t minimum_bytes(const RopeQkvBackwardArgs& args) {
  const RopeShape& shape = args.shape;
  const bool copies_v = !is_same_place(args.dv, qkv_heads(args.dqkv, QkvPart::kV, shape));
  return moved_bytes(shape, shape.H + (copies_v ? 2 : 1) * shape.Hkv);
}

std::int64_t flops(const RopeShape& shape) {
  return 3 * shape.B * shape.T * (shape.H + shape.Hkv) * shape.D;
}

void rope_qkv_forward(const RopeQkvForwardArgs& args, cudaStream_t stream) {
  const Part parts[3] = {{qkv_heads(args.qkv, QkvPart::kQ, args.shape), args.q},
                         {qkv_heads(args.qkv, QkvPart::kK, args.shape), args.k},
                         {qkv_heads(args.qkv, QkvPart::kV, args.shape), args.v}};
  launch(args.shape, parts, args.v.data != nullptr, 1.0f, "rope_qkv_forward", stream);
}

void rope_qkv_backward(const RopeQkvBackwardArgs& args, cudaStream_t stream) {
  const Part parts[3] = {{args.dq, qkv_heads(args.dqkv, QkvPart::kQ, args.shape)},
                         {args.dk, qkv_heads(args.dqkv, QkvPart::kK, args.shape)},
                         {args.dv, qkv_heads(args.dqkv, QkvPart::kV, args.shape)}};
  launch(args.shape, parts, !is_same_place(args.dv, parts[2].out), -1.0f, "rope_qkv_backward",
         stream);
}

}  // namespace steplens
