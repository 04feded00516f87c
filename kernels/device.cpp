#include "kernels/device.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda_check.h"

namespace steplens {

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

int num_multiprocessors() {
  int device = 0;
  SL_CUDA(cudaGetDevice(&device));
  int count = 0;
  SL_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

}  // namespace steplens
