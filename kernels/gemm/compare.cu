#include "kernels/gemm/compare.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda_check.h"
#include "kernels/device.h"
#include "kernels/vector.cuh"

namespace steplens {
namespace {

constexpr int kBlockSize = 256;
constexpr int kBlocksOfMultiprocessor = 8;

// sums[0]: squares of the differences, sums[1]: of the reference.
template <typename T>
__global__ void __launch_bounds__(kBlockSize)
    sum_squares(const T* values, const T* reference, std::int64_t count, double* sums) {
  double differences = 0;
  double squares = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kBlockSize;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockSize + threadIdx.x; i < count;
       i += stride) {
    const double wanted = to_float(reference[i]);
    const double difference = to_float(values[i]) - wanted;
    differences += difference * difference;
    squares += wanted * wanted;
  }
  differences = warp_sum(differences);
  squares = warp_sum(squares);
  if (threadIdx.x % kWarpSize == 0) {
    atomicAdd(&sums[0], differences);
    atomicAdd(&sums[1], squares);
  }
}

}  // namespace

double relative_distance(const void* values, const void* reference, std::int64_t count,
                         ElementType type, double* sums, cudaStream_t stream) {
  SL_CUDA(cudaMemsetAsync(sums, 0, 2 * sizeof(double), stream));
  const std::int64_t num_blocks =
      std::clamp<std::int64_t>((count + kBlockSize - 1) / kBlockSize, 1,
                               std::int64_t{num_multiprocessors()} * kBlocksOfMultiprocessor);
  const auto launch = [&]<typename T>(const T* typed_values) {
    sum_squares<<<static_cast<unsigned>(num_blocks), kBlockSize, 0, stream>>>(
        typed_values, static_cast<const T*>(reference), count, sums);
  };
  if (type == ElementType::kFloat32) {
    launch(static_cast<const float*>(values));
  } else {
    launch(static_cast<const Bfloat16*>(values));
  }
  SL_CUDA(cudaGetLastError());
  double host[2] = {};
  SL_CUDA(cudaMemcpyAsync(host, sums, sizeof host, cudaMemcpyDeviceToHost, stream));
  SL_CUDA(cudaStreamSynchronize(stream));
  if (host[0] == 0 && host[1] == 0) return 0;  // NaN is not equal to 0.
  return std::sqrt(host[0] / host[1]);
}

}  // namespace steplens
