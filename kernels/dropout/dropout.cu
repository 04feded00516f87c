// Dropout whose mask is drawn, not stored. Memory bound: each element is read and written once.

#include "kernels/dropout/dropout.cuh"

#include <limits>

#include "kernels/cuda_check.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace {

constexpr int kBlockSize = 256;

template <typename T, int kWidth>
__global__ void __launch_bounds__(kBlockSize) dropout_kernel(const DropoutArgs args) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kBlockSize + threadIdx.x) * kWidth;
  if (first >= args.count) return;
  const DropoutDraw draw = make_draw(args.mask);
  Packed<T, kWidth> packed;
  packed.load(static_cast<const T*>(args.x) + first);
  float values[kWidth];
  packed.unpack(values);
  drop<kWidth>(draw, first, values);
  packed.pack(values);
  packed.store(static_cast<T*>(args.y) + first);
}

}  // namespace

void dropout(const DropoutArgs& args, cudaStream_t stream) {
  check_dropout(args.mask, "dropout");
  check_argument(args.count >= 0, "dropout", "count", args.count, "0 and more");
  if (args.count == 0) return;
  const auto launch = [&]<typename T, int kWidth>() {
    const std::int64_t num_blocks =
        (args.count / kWidth + (args.count % kWidth != 0 ? 1 : 0) + kBlockSize - 1) / kBlockSize;
    check_argument(num_blocks <= std::numeric_limits<int>::max(), "dropout", "count", args.count,
                   "what 2147483647 blocks can cover");
    dropout_kernel<T, kWidth><<<static_cast<unsigned>(num_blocks), kBlockSize, 0, stream>>>(args);
    SL_CUDA(cudaGetLastError());
  };
  const auto launch_type = [&]<typename T>() {
    constexpr int kWidth = kVectorWidth<T>;
    if (args.count % kWidth == 0 && is_aligned(args.x) && is_aligned(args.y)) {
      launch.template operator()<T, kWidth>();
    } else {
      launch.template operator()<T, 1>();
    }
  };
  if (args.type == ElementType::kFloat32) {
    launch_type.template operator()<float>();
  } else {
    launch_type.template operator()<Bfloat16>();
  }
}

}  // namespace steplens
